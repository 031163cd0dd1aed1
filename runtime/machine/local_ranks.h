#pragma once

#include <functional>
#include <vector>

#include "comm/world/world.h"

namespace lockstep::runtime {

/// Runs `body` in a process of its own for each of `ranks` ranks on this machine. Rank r is bound to the r-th
/// of `parts` equal parts of this process's CPUs, if there are as many. Returns what rank 0's `body` gave, or
/// throws its error. The caller must not have started a thread.
std::vector<double> run_local_ranks(int ranks, int parts,
                                    const std::function<std::vector<double>(const comm::World&)>& body);

}  // namespace lockstep::runtime
