#pragma once

#include "kernels/cuda/portability.h"
#include "kernels/inline.h"

namespace lockstep::kernels {

/// The math of pointwise functions on a GPU: CUDA's own, whose errors its programming guide states (exp and
/// rsqrt 2 ulp, tanh and erf 2 ulp).
struct CudaMath {
  LOCKSTEP_INLINE static float exp(float x) { return expf(x); }
  LOCKSTEP_INLINE static float tanh(float x) { return tanhf(x); }
  LOCKSTEP_INLINE static float erf(float x) { return erff(x); }
  LOCKSTEP_INLINE static float rsqrt(float x) { return rsqrtf(x); }
};

}  // namespace lockstep::kernels
