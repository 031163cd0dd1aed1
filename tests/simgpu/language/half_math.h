#pragma once

#include <math.h>

#include "tests/simgpu/language/keywords.h"
#include "tests/simgpu/language/scalar_math.h"

// What NVIDIA's half-precision headers offer on the device only. Computed in float and rounded once.
#define SIMGPU_HALF_FUNCTION(name, expression)                   \
  inline __half h##name(const __half number) {                   \
    const float x = __half2float(number);                        \
    return __float2half_rn(expression);                          \
  }                                                              \
  inline __nv_bfloat16 h##name(const __nv_bfloat16 number) {     \
    const float x = __bfloat162float(number);                    \
    return __float2bfloat16_rn(expression);                      \
  }                                                              \
  inline __half2 h2##name(const __half2 pair) {                  \
    return __halves2half2(h##name(pair.x), h##name(pair.y));     \
  }                                                              \
  inline __nv_bfloat162 h2##name(const __nv_bfloat162 pair) {    \
    return __halves2bfloat162(h##name(pair.x), h##name(pair.y)); \
  }
SIMGPU_HALF_FUNCTION(exp, expf(x))
SIMGPU_HALF_FUNCTION(exp2, exp2f(x))
SIMGPU_HALF_FUNCTION(exp10, powf(10.0f, x))
SIMGPU_HALF_FUNCTION(log, logf(x))
SIMGPU_HALF_FUNCTION(log2, log2f(x))
SIMGPU_HALF_FUNCTION(log10, log10f(x))
SIMGPU_HALF_FUNCTION(sqrt, sqrtf(x))
SIMGPU_HALF_FUNCTION(rsqrt, rsqrtf(x))
SIMGPU_HALF_FUNCTION(rcp, 1.0f / x)
SIMGPU_HALF_FUNCTION(sin, sinf(x))
SIMGPU_HALF_FUNCTION(cos, cosf(x))
SIMGPU_HALF_FUNCTION(tanh, tanhf(x))
SIMGPU_HALF_FUNCTION(ceil, ceilf(x))
SIMGPU_HALF_FUNCTION(floor, floorf(x))
SIMGPU_HALF_FUNCTION(trunc, truncf(x))
SIMGPU_HALF_FUNCTION(rint, rintf(x))
#undef SIMGPU_HALF_FUNCTION
