#pragma once

#include "kernels/cuda/portability.h"

namespace lockstep::kernels {

/// The value of the lane whose number differs in the bit `lane_mask`; all lanes of the warp take part. A
/// struct brings its own, in its namespace.
__device__ inline float exchange(float value, int lane_mask) {
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
    for (int warp = 1; warp < threads / 32; ++warp) value = combine(value, warps[warp]);
    __syncthreads();  // the next call writes there again
  }
  return value;
}

template <int threads, class Value>
__device__ Value sum(Value value) {
  return reduce<threads>(value, [](Value a, Value b) { return a + b; });
}

}  // namespace lockstep::kernels
