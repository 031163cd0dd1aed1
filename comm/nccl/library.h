#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"

namespace lockstep::comm {

/// `--backend nccl`: sums on the GPUs, one rank per GPU, asynchronously in the given stream; everything else
/// by `inner`, a group on the host's side. `device` is a GPU and outlives the group. NCCL is loaded here and
/// not before. UsageError when this build has no CUDA, DeviceError when NCCL is missing or too old, CommError
/// when ranks share a GPU or do not come.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> inner,
                                                     kernels::Device& device, Seconds timeout);

/// Which GPU a rank has.
struct GpuIdentity {
  std::string host;      ///< the machine
  std::string physical;  ///< the GPU, or the part of one (MIG), on it
  std::string
      to_nccl;  ///< host and GPU as NCCL sees them: ranks with equal texts cannot join one communicator

  /// Equal where ranks share a GPU.
  std::string key() const { return host + ' ' + physical; }
};
GpuIdentity gpu_identity(kernels::Device& device);

/// Why NCCL cannot be loaded here; empty when it can, and then it is.
std::string nccl_problem();

/// For `trainer devices`: NCCL's version, or why there is none here. NCCL is loaded.
std::string nccl_version();

}  // namespace lockstep::comm
