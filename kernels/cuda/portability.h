#pragma once

/// The one file of kernels/cuda that knows which compiler reads it: nvcc, or a C++ compiler for the CUDA
/// machine in software. Sources include it before anything else of CUDA's. Kernels are plain CUDA C++, but
/// for `launch` and the two ways to shared memory.
#ifdef __CUDACC__

#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>
#include <utility>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/ptx.h"

/// The block's dynamic shared memory as `T* name`, aligned to 16 bytes.
#define DYNAMIC_SHARED(T, name)                                                   \
  extern __shared__ __align__(16) unsigned char lockstep_dynamic_shared_memory[]; \
  T* const name = reinterpret_cast<T*>(lockstep_dynamic_shared_memory)

/// An array in the block's shared memory.
#define STATIC_SHARED(T, name, count) __shared__ T name[count]

/// Before a loop over an array that has to stay in registers.
#define LOCKSTEP_UNROLL _Pragma("unroll")

namespace lockstep::kernels {

/// A grid's extent, and, by its default arguments, the line of the launch.
struct LaunchExtent {
  LaunchExtent(dim3 extent, const char* in = __builtin_FILE(), int at = __builtin_LINE())
      : blocks(extent), file(in), line(at) {}
  template <std::integral Integer>
  LaunchExtent(Integer x, const char* in = __builtin_FILE(), int at = __builtin_LINE())
      : LaunchExtent(dim3(static_cast<unsigned>(x)), in, at) {}

  dim3 blocks;
  const char* file;
  int line;
};

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...). DeviceError if it cannot be launched, or one
/// before it has failed.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const LaunchExtent& grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check_launch(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), grid.file,
               grid.line);
}

/// reinterpret_cast to what is loaded or stored at once: the address must be a multiple of its alignment, to
/// which the simulator holds kernels.
template <class To, class From>
__device__ To* aligned_cast(From* from) {
  return reinterpret_cast<To*>(from);
}

/// Slices of one allocation that different streams use at a time: the simulator, which checks their order,
/// takes a pointer for all that follows it unless it is told where the slice ends.
inline void declare_slice(const void*, std::size_t) {}

}  // namespace lockstep::kernels

#else

#include "tests/simgpu/language.h"

#include <chrono>
#include <cstdint>

#include "kernels/cuda/handles.h"

#define LOCKSTEP_UNROLL

namespace lockstep::kernels {

using simgpu::aligned_cast;
using simgpu::begin_copy;
using simgpu::fast_exp2;
using simgpu::load_tile;
using simgpu::multiply_tiles;
using simgpu::wait_for_copies;

/// simgpu::LaunchExtent: a dim3 that knows the line of the launch.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const simgpu::LaunchExtent& grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
  check_launch(
      simgpu::launch(kernel, grid, block, shared_bytes, stream, std::forward<Arguments>(arguments)...),
      grid.site.file, grid.site.line);
}

inline void declare_slice(const void* address, std::size_t bytes) {
  simgpu::register_range(address, bytes);
}

inline std::uint64_t device_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace lockstep::kernels

#endif
