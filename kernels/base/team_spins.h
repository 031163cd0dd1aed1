#pragma once

#include "kernels/base/export.h"

namespace lockstep {

/// Threads of GNU's OpenMP (libgomp) that wait for their team look 300,000 times, for 6 ms and more, before
/// they sleep: beside other processes each then holds the core that the one it waits for needs. This starts
/// the program anew with 3,000 (GOMP_SPINCOUNT, which libgomp reads before main; tests/bench/busy has the
/// times), unless the user has chosen, by it or OMP_WAIT_POLICY, or there is no team (OMP_NUM_THREADS=1).
/// Where it cannot be started anew it goes on as it is. Call it before anything else. valgrind follows with
/// --trace-children=yes.
LOCKSTEP_API void restart_with_few_spins(char* const* arguments);

}  // namespace lockstep
