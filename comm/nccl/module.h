#pragma once

#include "comm/nccl/library.h"

namespace lockstep::comm {

/// What `comm/nccl` adds to liblockstep_cuda.so, where CUDA's streams are known; see `library.h`.
struct NcclModule {
  int layout;  ///< nccl_module_layout, or the file is of another Lockstep
  std::unique_ptr<Communicator> (*make_communicator)(std::unique_ptr<Communicator> inner,
                                                     kernels::Device& device, Seconds timeout);
  GpuIdentity (*gpu_identity)(kernels::Device& device);
  std::string (*problem)();
  std::string (*version)();
};

inline constexpr int nccl_module_layout = 3;

/// The type of the symbol `lockstep_nccl_module`.
using NcclModuleEntry = const NcclModule* (*)();
inline constexpr const char* nccl_module_symbol = "lockstep_nccl_module";

}  // namespace lockstep::comm
