#pragma once

#include "kernels/cuda/portability.h"

namespace lockstep::kernels {

/// The math of pointwise functions on a GPU: CUDA's own, whose errors its programming guide states (exp and
/// rsqrt 2 ulp, tanh and erf 2 ulp).
struct CudaMath {
  __device__ static float exp(float x) { return expf(x); }
  __device__ static float tanh(float x) { return tanhf(x); }
  __device__ static float erf(float x) { return erff(x); }
  __device__ static float rsqrt(float x) { return rsqrtf(x); }
};

}  // namespace lockstep::kernels
