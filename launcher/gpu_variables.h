#pragma once

#include <map>
#include <string>

#include "launcher/environment.h"

namespace lockstep::launcher {

using Variables = std::map<std::string, std::string, std::less<>>;

/// What a rank must be told about GPUs, whatever it inherits. `visible`: the CUDA_VISIBLE_DEVICES that it
/// inherits, or empty. Parts of divided GPUs (MIG) are dealt out, since a process sees but the first of a
/// list. With
/// --allow-gpu-sharing ranks may share; where they must, NCCL is told that each is on a host of its own,
/// without which it refuses a GPU that two ranks have.
Variables gpu_variables(const Job& job, int local_rank, const std::string& visible);

/// The rest of what makes NCCL work so, unless the user has set it: sockets, as between nodes, and few
/// blocks, which leave room for the other rank's kernels.
Variables shared_gpu_defaults(const Job& job);

}  // namespace lockstep::launcher
