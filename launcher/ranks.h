#pragma once

#include <string>
#include <vector>

#include "launcher/cores.h"

namespace lockstep::launcher {

/// How many ranks `wanted` (--nproc-per-node) means: a number, cpu, gpu, or auto: a rank per GPU if there is
/// any, else per core. DeviceError for gpu without one, UsageError for anything else.
int count_ranks(const std::string& wanted, const Cores& cores, int devices);

/// The slices to bind the ranks to, near their GPUs where there are nodes to choose from; none when
/// OMP_NUM_THREADS (`threads`, may be empty) wants more than a slice has.
std::vector<CpuList> choose_slices(const Cores& cores, int ranks, const std::string& threads,
                                   const NumaNodes& nodes);

/// The line at the start: "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1". `threads` as the user
/// set it, or empty.
std::string start_line(const Cores& cores, const std::vector<CpuList>& slices, int ranks,
                       const std::string& threads);

}  // namespace lockstep::launcher
