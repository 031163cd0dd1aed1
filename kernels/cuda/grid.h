#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/handles.h"
#include "kernels/cuda/portability.h"

namespace lockstep::kernels {

/// Blocks and threads of a launch over a range.
struct Spread {
  unsigned blocks;
  unsigned threads;
};

/// Enough threads for `items`, but at most some waves of blocks on the current device: the kernel strides
/// over the range. Which thread does which item depends on the GPU, so nothing may be summed across items in
/// such a kernel.
inline Spread spread(std::int64_t items) {
  constexpr std::int64_t warp = 32;
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t blocks_per_multiprocessor =
      32;  // five to eight run at a time: the last wave is a small part
  int device = 0;
  int multiprocessors = 0;
  check(cudaGetDevice(&device), "cannot tell the current device");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cannot count the multiprocessors");
  if (items <= threads) return {1, static_cast<unsigned>(std::max(warp, (items + warp - 1) / warp * warp))};
  const std::int64_t blocks =
      std::min((items + threads - 1) / threads, multiprocessors * blocks_per_multiprocessor);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)};
}

/// The calling thread's first item of such a range, and the way to its next one.
__device__ inline std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace lockstep::kernels
