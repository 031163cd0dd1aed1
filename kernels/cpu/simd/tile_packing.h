#pragma once

#include "kernels/cpu/simd/lanes.h"
#include "kernels/tile_product.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

/// What the kernels that pack tiles have in common.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

[[gnu::always_inline]] inline Bf16* at(void* tiles, std::int64_t bytes) {
  return reinterpret_cast<Bf16*>(static_cast<char*>(tiles) + bytes);
}

/// `pack(first row, first term, to)`: each two tiles whose first element is there, in the order of the terms.
template <class Pack>
[[gnu::always_inline]] inline void for_pairs(std::int64_t rows, std::int64_t terms, std::int64_t next,
                                             void* tiles, const Pack& pack) {
  for (std::int64_t term = 0; term < terms; term += Tile::terms) {
    for (std::int64_t row = 0; row < rows; row += Tile::pair) {
      pack(row, term, at(tiles, row / Tile::rows * next + term / Tile::terms * Tile::bytes));
    }
  }
}

#if defined(__AVX512BW__)

/// The first `count` bits.
[[gnu::always_inline]] inline __mmask32 first_bits(std::int64_t count) {
  return static_cast<__mmask32>(count <= 0 ? 0 : count >= 32 ? 0xFFFFFFFFU : (1U << count) - 1U);
}
/// 32 numbers, or as many as the mask says and zeros.
[[gnu::always_inline]] inline __m512i some(__mmask32 mask, const Bf16* from) {
  return _mm512_maskz_loadu_epi16(mask, from);
}
[[gnu::always_inline]] inline void put(Bf16* to, __m512i numbers) {
  _mm512_store_si512(to, numbers);
}

/// 16 rows of 16 words to their transpose.
[[gnu::always_inline]] inline void transpose(__m512i (&rows)[16]) {
  __m512i twos[16];
  __m512i fours[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    twos[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    twos[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(twos[i], twos[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(twos[i], twos[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(twos[i + 1], twos[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(twos[i + 1], twos[i + 3]);
  }
  // Quarter q of fours[4 i + j] has column 4 q + j of four rows.
  constexpr int even = 0x88;
  constexpr int odd = 0xDD;
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i upper[2] = {_mm512_shuffle_i32x4(fours[j], fours[4 + j], even),
                              _mm512_shuffle_i32x4(fours[j], fours[4 + j], odd)};
    const __m512i lower[2] = {_mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], even),
                              _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], odd)};
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      rows[4 * i + j] = _mm512_shuffle_i32x4(upper[i], lower[i], even);
      rows[8 + 4 * i + j] = _mm512_shuffle_i32x4(upper[i], lower[i], odd);
    }
  }
}

#else

[[gnu::always_inline]] inline Bf16 number(const Bf16* from, bool there) {
  return there ? *from : Bf16{0};
}

#endif

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
