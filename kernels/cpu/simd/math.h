#pragma once

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// Functions that the compiler turns into vector code: no branches, no tables. Errors are the greatest
/// over every 64th f32 of the range, in units of the last place (test unit_simd_math).
struct Math {
  /// 1 ulp for x <= 0, but e^-87 for what is below. x = n ln 2 + r, and a polynomial of degree 6 for e^r on
  /// [-ln 2 / 2, ln 2 / 2] (Cephes' coefficients), times 2^n through the exponent's bits.
  [[gnu::always_inline]] static inline float exp_negative(float x) {
    return exp_of_normal(x < -87.0F ? -87.0F : x);
  }

  /// The same, but 0 below -87; for x <= 88.
  [[gnu::always_inline]] static inline float exp_or_zero(float x) {
    const float value = exp_negative(x);
    return x < -87.0F ? 0.0F : value;
  }

  /// 1 ulp; 0 below -87, infinite from 88.73 on.
  [[gnu::always_inline]] static inline float exp(float x) {
    const float inside = x < -87.0F ? -87.0F : x > 88.73F ? 88.73F : x;
    const Reduced reduced = reduce(inside);
    // 2^n in two halves: 2^128 has no f32, the product may.
    const std::int32_t half = reduced.exponent / 2;
    const float value = polynomial(reduced.rest) * power_of_2(half) * power_of_2(reduced.exponent - half);
    return x < -87.0F ? 0.0F : value;
  }

  /// 1.3 ulp. Cephes: a polynomial near 0, elsewhere 1 - 2 / (e^2x + 1).
  [[gnu::always_inline]] static inline float tanh(float x) {
    const float magnitude = __builtin_fabsf(x);
    const float z = x * x;
    float p = -5.70498872745e-3F;
    p = p * z + 2.06390887954e-2F;
    p = p * z - 5.37397155531e-2F;
    p = p * z + 1.33314422036e-1F;
    p = p * z - 3.33332819422e-1F;
    const float near = p * z * magnitude + magnitude;
    const float far = 1.0F - 2.0F / (exp_of_normal(2.0F * (magnitude > 10.0F ? 10.0F : magnitude)) + 1.0F);
    const float value = __builtin_copysignf(magnitude < 0.625F ? near : far, x);
    return x != x ? x : value;
  }

  /// 2.5 ulp, its smallest values are 0: below -88.3. 1 / (1 + e^-x).
  [[gnu::always_inline]] static inline float sigmoid(float x) {
    const float inside = x > 87.0F ? 87.0F : x < -88.3F ? -88.3F : x;
    const float value = 1.0F / (1.0F + exp_of_normal(-inside));
    return x < -88.3F ? 0.0F : value;
  }

  /// 1.2 ulp. Two minimax polynomials: of the function below 0.93, of log(1 - erf) above (N. Juffa,
  /// "Efficient faithfully-rounded erff", 2019).
  [[gnu::always_inline]] static inline float erf(float x) {
    const float t = __builtin_fabsf(x);
    const float clamped = t > 4.0F ? 4.0F : t;
    const float s = clamped * clamped;
    float far = -1.72853470e-5F * clamped + 3.83197126e-4F;
    const float u = -3.88396438e-3F * clamped + 2.42546219e-2F;
    far = far * s + u;
    far = far * clamped - 1.06777877e-1F;
    far = far * clamped - 6.34846687e-1F;
    far = far * clamped - 1.28717512e-1F;
    far = far * clamped - clamped;
    far = __builtin_copysignf(1.0F - exp_negative(far), x);
    const float z = x * x;
    float near = -5.96761703e-4F;
    near = near * z + 4.99119423e-3F;
    near = near * z - 2.67681349e-2F;
    near = near * z + 1.12819925e-1F;
    near = near * z - 3.76125336e-1F;
    near = near * z + 1.28379166e-1F;
    near = near * x + x;
    const float value = t > 0.927734375F ? far : near;
    return x != x ? x : value;
  }

  /// 1.5 ulp: a root and a division, which both are rounded.
  [[gnu::always_inline]] static inline float rsqrt(float x) { return 1.0F / __builtin_sqrtf(x); }

 private:
  struct Reduced {
    std::int32_t exponent;
    float rest;
  };

  /// e^x from -87 to 88.3: the power of 2 and the result are normal numbers.
  [[gnu::always_inline]] static inline float exp_of_normal(float x) {
    const Reduced reduced = reduce(x);
    return polynomial(reduced.rest) * power_of_2(reduced.exponent);
  }

  [[gnu::always_inline]] static inline Reduced reduce(float x) {
    constexpr float to_integer = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
    const float shifted = x * 1.44269504F + to_integer;
    const float n = shifted - to_integer;
    const auto exponent =
        __builtin_bit_cast(std::int32_t, shifted) - __builtin_bit_cast(std::int32_t, to_integer);
    return {exponent, (x - n * 0.693359375F) + n * 2.12194440e-4F};
  }

  /// From 2^-126 to 2^127.
  [[gnu::always_inline]] static inline float power_of_2(std::int32_t exponent) {
    return __builtin_bit_cast(float, (exponent + 127) << 23);
  }

  [[gnu::always_inline]] static inline float polynomial(float r) {
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    return p * r * r + r + 1.0F;
  }
};

/// The upper half of an f32, as SIMD kernels read and write it.
struct Bf16 {
  std::uint16_t bits;
};

/// To [-limit, limit]; a NaN compares with nothing and stays.
[[gnu::always_inline]] inline float clipped(float x, float limit) {
  const float below = x > limit ? limit : x;
  return below < -limit ? -limit : below;
}

[[gnu::always_inline]] inline float load(const float* from) {
  return *from;
}
[[gnu::always_inline]] inline float load(const Bf16* from) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(from->bits) << 16);
}

[[gnu::always_inline]] inline void store(float* to, float value) {
  *to = value;
}
/// To the nearest, ties to even.
[[gnu::always_inline]] inline void store(Bf16* to, float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
  to->bits = static_cast<std::uint16_t>((value != value ? bits | 0x400000U : rounded) >> 16);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
