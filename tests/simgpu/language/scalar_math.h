#pragma once

#include <math.h>

#include <type_traits>

// CUDA's mathematical functions that C has not. The fast ones are the accurate ones here: their results
// differ from a GPU's in the last bits anyhow. Some names are declared, but not defined, by the C library:
// hence C linkage.
extern "C" {
inline float rsqrtf(float x) noexcept {
  return 1.0f / sqrtf(x);
}
inline double rsqrt(double x) noexcept {
  return 1.0 / sqrt(x);
}
inline float __expf(float x) noexcept {
  return expf(x);
}
inline float __exp10f(float x) noexcept {
  return powf(10.0f, x);
}
inline float __logf(float x) noexcept {
  return logf(x);
}
inline float __log2f(float x) noexcept {
  return log2f(x);
}
inline float __log10f(float x) noexcept {
  return log10f(x);
}
inline float __powf(float x, float y) noexcept {
  return powf(x, y);
}
inline float __sinf(float x) noexcept {
  return sinf(x);
}
inline float __cosf(float x) noexcept {
  return cosf(x);
}
inline float __tanf(float x) noexcept {
  return tanf(x);
}
inline float __tanhf(float x) noexcept {
  return tanhf(x);
}
inline void __sincosf(float x, float* sine, float* cosine) noexcept {
  *sine = sinf(x);
  *cosine = cosf(x);
}
}

inline float __fdividef(float x, float y) {
  return x / y;
}
/// NaN becomes 0, as on a GPU.
inline float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline float __frsqrt_rn(float x) {
  return 1.0f / sqrtf(x);
}
inline float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}

// The overloads that CUDA has at global scope. A NaN gives way to a number.
inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) {
  return fmaxf(a, b);
}
inline double min(double a, double b) {
  return fmin(a, b);
}
inline double max(double a, double b) {
  return fmax(a, b);
}
#define SIMGPU_MIN_MAX(type)           \
  constexpr type min(type a, type b) { \
    return b < a ? b : a;              \
  }                                    \
  constexpr type max(type a, type b) { \
    return a < b ? b : a;              \
  }
SIMGPU_MIN_MAX(int)
SIMGPU_MIN_MAX(unsigned)
SIMGPU_MIN_MAX(long)
SIMGPU_MIN_MAX(unsigned long)
SIMGPU_MIN_MAX(long long)
SIMGPU_MIN_MAX(unsigned long long)
#undef SIMGPU_MIN_MAX
