#pragma once

#include "kernels/abi.h"
#include "kernels/base/abi.h"
#include "kernels/cuda/library.h"

namespace lockstep::kernels {

/// What liblockstep_cuda.so offers. It is the one thing of `kernels/` linked to CUDA, so a program maps CUDA
/// only when it loads this.
struct CudaModule {
  AbiIdentity identity;
  std::unique_ptr<Device> (*make_device)(int index);
  int (*device_count)();
  std::vector<CudaDeviceInfo> (*devices)();
  std::string (*versions)();
};

inline AbiIdentity cuda_module_identity() {
  return abi_identity(abi_border() + sizes_of<CudaModule, CudaDeviceInfo>());
}

/// What gives it: `const CudaModule* lockstep_cuda_module()`.
inline constexpr const char* cuda_module_symbol = "lockstep_cuda_module";

}  // namespace lockstep::kernels
