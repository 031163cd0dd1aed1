#pragma once

#include <functional>
#include <vector>

#include "comm/world/world.h"
#include "kernels/base/host.h"

namespace lockstep::runtime {

/// Runs `body` in a process of its own for each of `ranks` ranks on this machine. Rank r is bound to the CPUs
/// of slice r (modulo slices); without slices none is bound. Returns what rank 0's `body` gave, or throws its
/// error. The caller must not have started a thread.
std::vector<double> run_local_ranks(int ranks, const std::vector<CpuList>& slices,
                                    const std::function<std::vector<double>(const comm::World&)>& body);

}  // namespace lockstep::runtime
