#pragma once

/// The one file of kernels/cuda that knows which compiler reads it: nvcc, or a C++ compiler for the CUDA machine
/// in software. Kernels are plain CUDA C++, but for `launch` and DYNAMIC_SHARED.
#ifdef __CUDACC__

#include <cuda_runtime.h>

#include <utility>

/// The block's dynamic shared memory as `T* name`, aligned to 16 bytes.
#define DYNAMIC_SHARED(T, name)                                                  \
  extern __shared__ __align__(16) unsigned char lockstep_dynamic_shared_memory[]; \
  T* const name = reinterpret_cast<T*>(lockstep_dynamic_shared_memory)

namespace lockstep::kernels {

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...), which tells whether it could be launched.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace lockstep::kernels

#else

#include "tests/simgpu/language.h"
#include "tests/simgpu/launch.h"

namespace lockstep::kernels {

using simgpu::launch;

}  // namespace lockstep::kernels

#endif
