#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lockstep {

/// The upper half of an f32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// IEEE 754 binary16.
struct Float16 {
  std::uint16_t bits = 0;
};

inline float widen(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

inline float widen(Float16 value) {
  const std::uint32_t exponent = (value.bits >> 10) & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = static_cast<float>(fraction) * 0x1p-24F;
  } else if (exponent == 31) {
    magnitude = std::bit_cast<float>(0x7F800000U | fraction << 13);
  } else {
    magnitude = std::bit_cast<float>((exponent + 112) << 23 | fraction << 13);
  }
  return (value.bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

/// To the nearest, ties to even; what is too large is infinite.
inline void narrow(float value, BFloat16& result) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
  result.bits = static_cast<std::uint16_t>((std::isnan(value) ? bits | 0x400000U : rounded) >> 16);
}

inline void narrow(float value, Float16& result) {
  constexpr std::uint16_t infinity = 0x7C00;
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16 & 0x8000U);
  const float magnitude = std::fabs(value);
  std::uint32_t bits = 0;
  if (std::isnan(value)) {
    bits = infinity | 0x200U;
  } else if (magnitude >= 65520.0F) {
    bits = infinity;
  } else if (magnitude < 0x1p-14F) {
    bits = static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p24F));  // subnormal
  } else {
    const auto wide = std::bit_cast<std::uint32_t>(magnitude) - (112U << 23);
    bits = (wide + 0xFFFU + (wide >> 13 & 1U)) >> 13;
  }
  result.bits = static_cast<std::uint16_t>(sign | bits);
}

/// The first half of the bytes are as many bf16: from the last on, so that none is overwritten before it is
/// read.
inline void widen_in_place(std::span<float> values) {
  const auto* const halves = reinterpret_cast<const std::byte*>(values.data());
  for (std::size_t i = values.size(); i-- > 0;) {
    BFloat16 half;
    std::memcpy(&half, halves + i * sizeof(half), sizeof(half));
    values[i] = widen(half);
  }
}

}  // namespace lockstep
