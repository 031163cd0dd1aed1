#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/base/dtype.h"
#include "kernels/cuda/portability.h"
#include "kernels/pointwise_functions.h"

/// What kernels compute with: element types, vectors of elements, the math of pointwise functions.
namespace lockstep::kernels {

/// Elements are computed with as f32 and rounded once, to the nearest.
__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float widen(__half value) {
  return __half2float(value);
}

template <class Element>
__device__ Element narrow(float value);
template <>
__device__ inline float narrow<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ inline __half narrow<__half>(float value) {
  return __float2half_rn(value);
}

/// `make(element)` with a null pointer to the element type of `dtype`: f32, bf16 or f16.
template <class Make>
auto with_element(DType dtype, Make make) {
  if (dtype == DType::bf16) return make(static_cast<__nv_bfloat16*>(nullptr));
  if (dtype == DType::f16) return make(static_cast<__half*>(nullptr));
  return make(static_cast<float*>(nullptr));
}

/// Elements side by side, loaded at once: for four 16 bytes of f32, 8 of the others.
template <class Element, int lanes>
struct alignas(lanes * sizeof(Element)) Pack {
  Element at[lanes];
};
template <class Element>
using Four = Pack<Element, 4>;

/// Elements of 16 bytes, the most that a thread loads at once.
template <class Element>
inline constexpr int pack_lanes = 16 / static_cast<int>(sizeof(Element));

/// What is computed with such elements.
template <int lanes>
struct alignas(lanes * sizeof(float)) Floats {
  float at[lanes];

  __device__ static Floats all(float value) {
    Floats floats;
    for (int lane = 0; lane < lanes; ++lane) floats.at[lane] = value;
    return floats;
  }
};

template <int lanes>
__device__ void add_to(Floats<lanes>& sum, const Floats<lanes>& values) {
  for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += values.at[lane];
}

template <int lanes, class Element>
__device__ Floats<lanes> load(const Element* from) {
  const auto pack = *aligned_cast<const Pack<Element, lanes>>(from);
  Floats<lanes> values;
  for (int lane = 0; lane < lanes; ++lane) values.at[lane] = widen(pack.at[lane]);
  return values;
}
template <int lanes, class Element>
__device__ void store(Element* to, const Floats<lanes>& values) {
  Pack<Element, lanes> pack;
  for (int lane = 0; lane < lanes; ++lane) pack.at[lane] = narrow<Element>(values.at[lane]);
  *aligned_cast<Pack<Element, lanes>>(to) = pack;
}

/// The math of pointwise functions on a GPU: CUDA's own, whose errors its programming guide states (exp and
/// rsqrt 2 ulp, tanh and erf 2 ulp; so sigmoid has 3).
struct CudaMath {
  LOCKSTEP_INLINE static float exp(float x) { return expf(x); }
  LOCKSTEP_INLINE static float exp_or_zero(float x) { return expf(x); }
  LOCKSTEP_INLINE static float tanh(float x) { return tanhf(x); }
  LOCKSTEP_INLINE static float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
  LOCKSTEP_INLINE static float erf(float x) { return erff(x); }
  LOCKSTEP_INLINE static float rsqrt(float x) { return rsqrtf(x); }
};

}  // namespace lockstep::kernels
