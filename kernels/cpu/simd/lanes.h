#pragma once

#include "kernels/cpu/simd/math.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

/// Floats of a register.
#if defined(__AVX512F__)
constexpr int native_width = 16;
#elif defined(__AVX2__)
constexpr int native_width = 8;
#else
constexpr int native_width = 4;
#endif

/// `width` numbers that lie side by side: GCC's vector extension, so that running values stay in registers.
template <int width>
struct Lanes {
  static constexpr int count = width;
  typedef float Floats __attribute__((vector_size(width * sizeof(float))));
  typedef float Unaligned
      __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));
  typedef std::uint32_t Words __attribute__((vector_size(width * sizeof(float))));
  typedef std::uint16_t Halves __attribute__((vector_size(width * sizeof(Bf16))));
  typedef std::uint16_t UnalignedHalves
      __attribute__((vector_size(width * sizeof(Bf16)), aligned(sizeof(Bf16)), may_alias));

  static Floats all(float value) { return Floats{} + value; }

  static Floats load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static Floats load(const Bf16* from) {
    const Halves halves = *reinterpret_cast<const UnalignedHalves*>(from);
    return reinterpret_cast<Floats>(converted<Words>(halves) << 16);
  }

  static void store(float* to, Floats value) { *reinterpret_cast<Unaligned*>(to) = value; }
  /// As the store of a single number.
  static void store(Bf16* to, Floats value) {
    const Words bits = reinterpret_cast<Words>(value);
    const Words rounded = bits + 0x7FFFU + (bits >> 16 & 1U);
    const Words kept = value != value ? bits | 0x400000U : rounded;
    *reinterpret_cast<UnalignedHalves*>(to) = converted<Halves>(Words(kept >> 16));
  }

  /// In their order.
  static float sum(Floats values) {
    float at[width];
    store(at, values);
    float total = 0;
    for (int lane = 0; lane < width; ++lane) total += at[lane];
    return total;
  }

 private:
  template <class To, class From>
  [[gnu::always_inline]] static inline To converted(From from) {
    return __builtin_convertvector(from, To);
  }
};

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
