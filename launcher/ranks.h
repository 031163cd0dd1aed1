#pragma once

#include <string>
#include <vector>

#include "launcher/cores.h"
#include "launcher/numa.h"

namespace lockstep::launcher {

/// How many ranks `wanted` (--nproc-per-node) means: a number, cpu, gpu, or auto: a rank per GPU if there is
/// any, else per core. DeviceError for gpu without one, UsageError for anything else.
int count_ranks(const std::string& wanted, const Cores& cores, int devices);

/// The slices to bind the ranks to, near their GPUs where there are nodes to choose from; none when
/// OMP_NUM_THREADS
/// (`threads`, may be empty) wants more than a slice has.
std::vector<CpuList> choose_slices(const Cores& cores, int ranks, const std::string& threads,
                                   const NumaNodes& nodes);

}  // namespace lockstep::launcher
