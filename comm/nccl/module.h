#pragma once

#include "comm/nccl/library.h"
#include "kernels/abi.h"
#include "kernels/base/abi.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// What `comm/nccl` adds to liblockstep_cuda.so, where CUDA's streams are known; see `library.h`.
struct NcclModule {
  AbiIdentity identity;
  void (*share_clock)(Clock::State& state);
  std::unique_ptr<Communicator> (*make_communicator)(std::unique_ptr<Communicator> inner,
                                                     kernels::Device& device, Seconds timeout);
  GpuIdentity (*gpu_identity)(kernels::Device& device);
  std::string (*problem)();
  std::string (*version)();
};

inline AbiIdentity nccl_module_identity() {
  return abi_identity(kernels::abi_border() +
                      sizes_of<NcclModule, GpuIdentity, Communicator, Arena, ArenaRange, ExchangeTiming,
                               ExchangeLabel, WatchHooks, World>());
}

inline constexpr const char* nccl_module_symbol = "lockstep_nccl_module";

}  // namespace lockstep::comm
