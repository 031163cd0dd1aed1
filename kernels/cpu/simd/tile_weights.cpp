#include "kernels/cpu/simd/tile_packing.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
#if defined(__AVX512BW__)
namespace {

/// 8 pairs of terms of 16 columns, whose pairs are `from_pair` apart. `pairs`: how many of these there are.
void weights(const Bf16* from, std::int64_t from_pair, std::int64_t pairs, Bf16* to) {
  // Of two terms the same column side by side.
  const __m512i turned =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  __m512i rows[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_epi8(some(i < pairs ? first_bits(32) : 0, from + i * from_pair), turned);
  }
  __m512i twos[8];
  __m512i fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    twos[i] = _mm512_unpacklo_epi64(rows[i], rows[i + 1]);
    twos[i + 1] = _mm512_unpackhi_epi64(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      fours[i + 2 * j] = _mm512_shuffle_i64x2(twos[i + j], twos[i + j + 2], 0x88);
      fours[i + 2 * j + 1] = _mm512_shuffle_i64x2(twos[i + j], twos[i + j + 2], 0xDD);
    }
  }
  // fours[2 j + h] has of rows 0 to 3 the columns 2 (h + 2 n) + j.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * (i % 2) + i / 2;
    put(to + row * Tile::terms, _mm512_shuffle_i64x2(fours[i], fours[i + 4], 0x88));
    put(to + (row + 4) * Tile::terms, _mm512_shuffle_i64x2(fours[i], fours[i + 4], 0xDD));
  }
}

}  // namespace

void run(const TileWeights& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    for (std::int64_t half = 0; half < 4; ++half) {
      const std::int64_t first = term + half % 2 * Tile::rows;
      const std::int64_t left = column + half / 2 * Tile::rows;
      const std::int64_t there = first < t.terms ? (t.columns - left + 1) / 2 : 0;
      weights(numbers + first / t.panel * t.from_panel + left / 2 * t.from_pair + first % t.panel * 2,
              t.from_pair, there, at(to, half / 2 * t.next) + half % 2 * 8 * Tile::terms);
    }
  });
}

#else

void run(const TileWeights& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      Bf16* const tile = at(to, i / Tile::rows * t.next) + i % Tile::rows * 2;
      const std::int64_t left = column + i;
      for (std::int64_t k = 0; k < Tile::terms; ++k) {
        const std::int64_t k_at = term + k;
        const std::int64_t place =
            k_at / t.panel * t.from_panel + left / 2 * t.from_pair + k_at % t.panel * 2 + left % 2;
        tile[k / 2 * Tile::terms + k % 2] = number(numbers + place, left < t.columns && k_at < t.terms);
      }
    }
  });
}

#endif

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
