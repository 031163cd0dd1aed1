#pragma once

#include "kernels/cpu/simd/isa.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// The upper half of an f32, as the loops read and write it.
struct Bf16 {
  std::uint16_t bits;
};

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
