#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/division.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/portability.h"

namespace lockstep::kernels {

/// Threads of a warp.
inline constexpr int warp = 32;

/// Blocks and threads of a launch over a range.
struct Spread {
  unsigned blocks;
  unsigned threads;
};

/// Enough threads for `items`, but at most some waves of blocks on the current device: the kernel strides
/// over the range. Which thread does which item depends on the GPU, so nothing may be summed across items in
/// such a kernel.
inline Spread spread(std::int64_t items) {
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t blocks_per_multiprocessor =
      32;  // five to eight run at a time: the last wave is a small part
  const int multiprocessors = multiprocessors_of_current_device();
  if (items <= threads)
    return {1, static_cast<unsigned>(std::max<std::int64_t>(warp, rounded_up(items, warp)))};
  const std::int64_t blocks =
      std::min<std::int64_t>(parts_of(items, threads), multiprocessors * blocks_per_multiprocessor);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads)};
}

/// The calling thread's first item of such a range, and the way to its next one.
__device__ inline std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// Blocks that take so many items each.
inline unsigned blocks_for(std::int64_t items, std::int64_t of_a_block) {
  return static_cast<unsigned>(parts_of(items, of_a_block));
}

/// Of a row that a warp takes; a longer one is a block's.
inline constexpr std::int64_t columns_of_a_warp = 1024;

/// The value of the lane whose number differs in the bit `lane_mask`; all lanes of the warp take part. A
/// struct brings its own, in its namespace.
__device__ inline float exchange(float value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffU, value, lane_mask);
}
__device__ inline int exchange(int value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffU, value, lane_mask);
}
__device__ inline double exchange(double value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffU, value, lane_mask);
}

/// `combine` over the values of `threads` neighbouring threads (a warp, or a whole block of so many), always
/// in the same order; every thread gets the result. `combine(a, b)` must equal `combine(b, a)` to the bit.
template <int threads, class Value, class Combine>
__device__ Value reduce(Value value, Combine combine) {
  static_assert(threads >= 32 && threads <= 1024 && (threads & (threads - 1)) == 0);
  for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) value = combine(value, exchange(value, lane_mask));
  if constexpr (threads > 32) {
    STATIC_SHARED(Value, warps, threads / 32);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
    for (int other = 1; other < threads / 32; ++other) value = combine(value, warps[other]);
    __syncthreads();  // the next call writes there again
  }
  return value;
}

template <int threads, class Value>
__device__ Value sum(Value value) {
  return reduce<threads>(value, [](Value a, Value b) { return a + b; });
}

}  // namespace lockstep::kernels
