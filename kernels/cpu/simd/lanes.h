#pragma once

#include <utility>

#include "kernels/cpu/simd/math.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

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
  typedef std::uint32_t UnalignedWords
      __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(Bf16)), may_alias));
  typedef std::uint16_t Halves __attribute__((vector_size(width * sizeof(Bf16))));
  typedef std::uint16_t UnalignedHalves
      __attribute__((vector_size(width * sizeof(Bf16)), aligned(sizeof(Bf16)), may_alias));

  static Floats all(float value) { return Floats{} + value; }

  static Floats load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
  static Floats load(const Bf16* from) {
#if defined(__AVX512F__)
    // GCC 12 widens in two halves.
    if constexpr (width == 16) {
      const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      return (Floats)_mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, halves), 16);
    }
#endif
    const Halves halves = *reinterpret_cast<const UnalignedHalves*>(from);
    return reinterpret_cast<Floats>(converted<Words>(halves) << 16);
  }

  static void store(float* to, Floats value) {
    *reinterpret_cast<Unaligned*>(to) = value;
  }
  /// As the store of a single number; with AVX512_BF16 what is denormal becomes 0.
  static void store(Bf16* to, Floats value) {
#if defined(__AVX512BF16__)
    if constexpr (width == 16) {
      *reinterpret_cast<UnalignedHalves*>(to) = (Halves)_mm512_cvtneps_pbh((__m512)value);
      return;
    }
#endif
    const Words upper = rounded(value) >> 16;
#if defined(__AVX512F__)
    if constexpr (width == 16) {
      *reinterpret_cast<UnalignedHalves*>(to) = (Halves)_mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)upper);
      return;
    }
#endif
    *reinterpret_cast<UnalignedHalves*>(to) = converted<Halves>(upper);
  }

  /// Words of two bf16, the first in the lower half.
  static Words load_words(const void* from) {
    return *static_cast<const UnalignedWords*>(from);
  }
  static void store_words(void* to, Words value) {
    *static_cast<UnalignedWords*>(to) = value;
  }
  static Words paired(Floats first, Floats second) {
#if defined(__AVX512BF16__)
    if constexpr (width == 16) {
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
      const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i of_both =
          _mm512_or_epi32(i, _mm512_slli_epi32(_mm512_add_epi32(i, _mm512_set1_epi32(16)), 16));
      return (Words)_mm512_permutexvar_epi16(of_both, both);
    }
#endif
    return rounded(first) >> 16 | (rounded(second) & 0xFFFF0000U);
  }
  static Floats first_of(Words pairs) {
    return reinterpret_cast<Floats>(pairs << 16);
  }
  static Floats second_of(Words pairs) {
    return reinterpret_cast<Floats>(pairs & 0xFFFF0000U);
  }

  /// Adds both products of each pair.
  [[gnu::always_inline]] static inline void add_products(Floats& sum, Words a, Words b) {
#if defined(__AVX512BF16__)
    if constexpr (width == 16) {
      sum = (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
      return;
    }
#endif
    sum += first_of(a) * first_of(b);
    sum += second_of(a) * second_of(b);
  }

  /// Halves of halves: fewer steps.
  [[gnu::always_inline]] static inline float sum_of_halves(Floats values) {
    float at[width];
    store(at, values);
#pragma GCC unroll 4
    for (int half = width / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (int lane = 0; lane < half; ++lane) at[lane] += at[lane + half];
    }
    return at[0];
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
  /// The upper halves are bf16.
  static Words rounded(Floats value) {
#if defined(__AVX512BF16__)
    if constexpr (width == 16) return converted<Words>((Halves)_mm512_cvtneps_pbh((__m512)value)) << 16;
#endif
    const Words bits = reinterpret_cast<Words>(value);
    return value != value ? bits | 0x400000U : bits + 0x7FFFU + (bits >> 16 & 1U);
  }

  template <class To, class From>
  [[gnu::always_inline]] static inline To converted(From from) {
    return __builtin_convertvector(from, To);
  }
};

/// a b a b ... of the halves that begin at `first`.
template <int first, class Vector, std::size_t... i>
[[gnu::always_inline]] inline Vector alternating(Vector a, Vector b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + static_cast<int>(i / 2 + i % 2 * sizeof...(i)))...);
}
/// Both halves of two vectors.
template <class Vector>
struct Alternating {
  Vector first, second;

  [[gnu::always_inline]] static inline Alternating of(Vector a, Vector b) {
    constexpr std::size_t count = sizeof(Vector) / sizeof(a[0]);
    constexpr auto places = std::make_index_sequence<count>{};
    return {alternating<0>(a, b, places), alternating<count / 2>(a, b, places)};
  }
};

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
