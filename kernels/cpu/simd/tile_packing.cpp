#include "kernels/cpu/simd/tile_packing.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
#if defined(__AVX512BW__)
namespace {

/// Two tiles of the transpose of 32 rows of 32 numbers.
void transpose(const Bf16* from, std::int64_t from_row, Bf16* first, Bf16* second) {
  for (int column = 0; column < Tile::pair; column += 8) {
    const auto eight = [&](std::int64_t row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + row * from_row + column));
    };
    __m512i rows[8];  // of each quarter of a register the rows `row`, 8 + `row`, ...
#pragma GCC unroll 8
    for (int row = 0; row < 8; ++row) {
      __m512i four = _mm512_castsi128_si512(eight(row));
      four = _mm512_mask_broadcast_i32x4(four, 0x00F0, eight(8 + row));
      four = _mm512_mask_broadcast_i32x4(four, 0x0F00, eight(16 + row));
      rows[row] = _mm512_mask_broadcast_i32x4(four, 0xF000, eight(24 + row));
    }
    __m512i twos[8];
    __m512i fours[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      twos[i] = _mm512_unpacklo_epi16(rows[i], rows[i + 1]);
      twos[i + 1] = _mm512_unpackhi_epi16(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      fours[i] = _mm512_unpacklo_epi32(twos[i], twos[i + 2]);
      fours[i + 1] = _mm512_unpackhi_epi32(twos[i], twos[i + 2]);
      fours[i + 2] = _mm512_unpacklo_epi32(twos[i + 1], twos[i + 3]);
      fours[i + 3] = _mm512_unpackhi_epi32(twos[i + 1], twos[i + 3]);
    }
    Bf16* const to = (column < Tile::rows ? first : second) + column % Tile::rows * Tile::terms;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      put(to + 2 * i * Tile::terms, _mm512_unpacklo_epi64(fours[i], fours[i + 4]));
      put(to + (2 * i + 1) * Tile::terms, _mm512_unpackhi_epi64(fours[i], fours[i + 4]));
    }
  }
}

/// Adds the terms of 16 columns.
[[gnu::always_inline]] inline void add(__m512& sum, __m512i pairs) {
#if defined(__AVX512BF16__)
  constexpr int ones = 0x3F803F80;
  sum = _mm512_dpbf16_ps(sum, (__m512bh)pairs, (__m512bh)_mm512_set1_epi32(ones));
#else
  sum += _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  sum += _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
#endif
}

/// 16 pairs of terms of 32 columns. `row(term)` has their numbers.
template <bool adds_up, class Row>
[[gnu::always_inline]] inline void pairs(const Row& row, __mmask32 columns, Bf16* first, Bf16* second,
                                         float* sums) {
  // Each half of a register holds what unpacking takes from both of its halves.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  __m512 totals[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
#pragma GCC unroll 4
  for (std::int64_t term = 0; term < Tile::terms; term += 2) {
    const __m512i even = _mm512_permutexvar_epi64(order, row(term));
    const __m512i odd = _mm512_permutexvar_epi64(order, row(term + 1));
    const __m512i left = _mm512_unpacklo_epi16(even, odd);
    const __m512i right = _mm512_unpackhi_epi16(even, odd);
    put(first + term * Tile::rows, left);
    put(second + term * Tile::rows, right);
    if constexpr (adds_up) {
      add(totals[0], left);
      add(totals[1], right);
    }
  }
  const auto keep = [sums](std::int64_t column, __mmask32 mask, __m512 total) {
    const auto some = static_cast<__mmask16>(mask);
    _mm512_mask_storeu_ps(sums + column, some, _mm512_maskz_loadu_ps(some, sums + column) + total);
  };
  if constexpr (adds_up) {
    keep(0, columns, totals[0]);
    keep(Tile::rows, columns >> 16, totals[1]);
  }
}

/// Of a matrix with so many terms and columns from here on.
template <bool adds_up>
void pairs(const Bf16* from, std::int64_t from_row, std::int64_t terms, std::int64_t columns, Bf16* first,
           Bf16* second, float* sums) {
  const __mmask32 mask = first_bits(columns);
  if (terms >= Tile::terms && columns >= Tile::pair) {
    const auto whole = [&](std::int64_t term) { return _mm512_loadu_si512(from + term * from_row); };
    return pairs<adds_up>(whole, mask, first, second, sums);
  }
  const auto part = [&](std::int64_t term) { return some(term < terms ? mask : 0, from + term * from_row); };
  pairs<adds_up>(part, mask, first, second, sums);
}

}  // namespace

void run(const TileRows& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.rows, t.terms, t.next, tiles, [&](std::int64_t row, std::int64_t term, Bf16* to) {
    const Bf16* const square = numbers + row * t.from_row + term;
    if (row + Tile::pair <= t.rows && term + Tile::terms <= t.terms) {
      for (std::int64_t i = 0; i < Tile::rows; ++i) {
        put(to + i * Tile::terms, _mm512_loadu_si512(square + i * t.from_row));
        put(at(to, t.next) + i * Tile::terms, _mm512_loadu_si512(square + (i + Tile::rows) * t.from_row));
      }
      return;
    }
    const __mmask32 columns = first_bits(t.terms - term);
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      const __mmask32 mask = row + i < t.rows ? columns : 0;
      Bf16* const tile = i < Tile::rows ? to : at(to, t.next) - Tile::elements;
      put(tile + i * Tile::terms, some(mask, numbers + (row + i) * t.from_row + term));
    }
  });
}

void run(const TileTranspose& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    const Bf16* const square = numbers + term * t.from_row + column;
    if (column + Tile::pair <= t.columns && term + Tile::terms <= t.terms) {
      return transpose(square, t.from_row, to, at(to, t.next));
    }
    alignas(64) Bf16 whole[Tile::pair * Tile::terms];
    const __mmask32 mask = first_bits(t.columns - column);
    for (std::int64_t i = 0; i < Tile::terms; ++i) {
      put(whole + i * Tile::pair, some(term + i < t.terms ? mask : 0, square + i * t.from_row));
    }
    transpose(whole, Tile::pair, to, at(to, t.next));
  });
}

void run(const TilePairs& t, const void* from, void* tiles, float* sums) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    const auto pack = sums == nullptr ? pairs<false> : pairs<true>;
    pack(numbers + term * t.from_row + column, t.from_row, t.terms - term, t.columns - column, to,
         at(to, t.next), sums == nullptr ? nullptr : sums + column);
  });
}

#else

void run(const TileRows& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.rows, t.terms, t.next, tiles, [&](std::int64_t row, std::int64_t term, Bf16* to) {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      Bf16* const tile = at(to, i / Tile::rows * t.next) + i % Tile::rows * Tile::terms;
      for (std::int64_t k = 0; k < Tile::terms; ++k) {
        tile[k] = number(numbers + (row + i) * t.from_row + term + k, row + i < t.rows && term + k < t.terms);
      }
    }
  });
}

void run(const TileTranspose& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      Bf16* const tile = at(to, i / Tile::rows * t.next) + i % Tile::rows * Tile::terms;
      for (std::int64_t k = 0; k < Tile::terms; ++k) {
        tile[k] = number(numbers + (term + k) * t.from_row + column + i,
                         column + i < t.columns && term + k < t.terms);
      }
    }
  });
}

void run(const TilePairs& t, const void* from, void* tiles, float* sums) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      Bf16* const tile = at(to, i / Tile::rows * t.next) + i % Tile::rows * 2;
      float total = 0;
      for (std::int64_t k = 0; k < Tile::terms; ++k) {
        const Bf16 value = number(numbers + (term + k) * t.from_row + column + i,
                                  column + i < t.columns && term + k < t.terms);
        tile[k / 2 * Tile::terms + k % 2] = value;
        total += load(&value);
      }
      if (sums != nullptr && column + i < t.columns) sums[column + i] += total;
    }
  });
}

#endif

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
