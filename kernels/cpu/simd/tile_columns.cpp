#include "kernels/cpu/simd/tile_packing.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

#if defined(__AVX512BW__)

void run(const TileColumns& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    const __mmask32 mask = first_bits(t.terms - term);
    for (std::int64_t half = 0; half < 2; ++half) {
      const std::int64_t first = column + half * Tile::rows;
      __m512i rows[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        rows[i] = some(first + i < t.columns ? mask : 0, numbers + (first + i) * t.from_row + term);
      }
      transpose(rows);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) put(at(to, half * t.next) + i * Tile::terms, rows[i]);
    }
  });
}

#else

void run(const TileColumns& t, const void* from, void* tiles) {
  const auto* const numbers = static_cast<const Bf16*>(from);
  for_pairs(t.columns, t.terms, t.next, tiles, [&](std::int64_t column, std::int64_t term, Bf16* to) {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      Bf16* const tile = at(to, i / Tile::rows * t.next) + i % Tile::rows * 2;
      for (std::int64_t k = 0; k < Tile::terms; ++k) {
        tile[k / 2 * Tile::terms + k % 2] = number(numbers + (column + i) * t.from_row + term + k,
                                                   column + i < t.columns && term + k < t.terms);
      }
    }
  });
}

#endif

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
