#pragma once

#include "kernels/cuda/library.h"

namespace lockstep::kernels {

/// What liblockstep_cuda.so offers. It is the one thing of `kernels/` linked to CUDA, so a program maps CUDA
/// only when it loads this.
struct CudaModule {
  int layout;  ///< cuda_module_layout, or the file is of another Lockstep
  std::unique_ptr<Device> (*make_device)(int index);
  int (*device_count)();
  std::vector<CudaDeviceInfo> (*devices)();
  std::string (*versions)();
};

inline constexpr int cuda_module_layout = 4;

/// What gives it: `const CudaModule* lockstep_cuda_module()`.
inline constexpr const char* cuda_module_symbol = "lockstep_cuda_module";

}  // namespace lockstep::kernels
