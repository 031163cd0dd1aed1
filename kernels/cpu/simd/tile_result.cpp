#include "kernels/cpu/simd/tile_packing.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// Up to 16 rows and columns of the transpose.
void transpose(const TileResult& t, const float* from, std::int64_t rows, std::int64_t columns, Bf16* to) {
#if defined(__AVX512BW__)
  __m512i words[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) words[i] = _mm512_loadu_si512(from + i * t.from_row);
  transpose(words);
  alignas(64) Bf16 row[16];
  for (std::int64_t i = 0; i < rows; ++i) {
    Lanes<16>::store(columns == 16 ? to + i * t.to_row : row, (Lanes<16>::Floats)words[i]);
    for (std::int64_t k = 0; columns < 16 && k < columns; ++k) to[i * t.to_row + k] = row[k];
  }
#else
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < columns; ++k) store(to + i * t.to_row + k, from[k * t.from_row + i]);
  }
#endif
}

void transpose(const TileResult& t, const float* from, Bf16* to) {
  for (std::int64_t row = 0; row < t.rows; row += Tile::rows) {
    for (std::int64_t column = 0; column < t.columns; column += Tile::rows) {
      const auto part = [](std::int64_t left) { return left < Tile::rows ? left : Tile::rows; };
      transpose(t, from + column * t.from_row + row, part(t.rows - row), part(t.columns - column),
                to + row * t.to_row + column);
    }
  }
}

}  // namespace

void run(const TileResult& t, const float* from, void* to) {
  using L = Lanes<native_width>;
  if (t.as == TileResult::As::bf16) {
    for (std::int64_t row = 0; row < t.rows; ++row) {
      const float* const sums = from + row * t.from_row;
      auto* const numbers = static_cast<Bf16*>(to) + row * t.to_row;
      std::int64_t i = 0;
      for (; i + native_width <= t.columns; i += native_width) L::store(numbers + i, L::load(sums + i));
      for (; i < t.columns; ++i) store(numbers + i, sums[i]);
    }
    return;
  }
  if (t.as == TileResult::As::transposed_bf16) return transpose(t, from, static_cast<Bf16*>(to));
  auto* const numbers = static_cast<float*>(to);
  if (t.as == TileResult::As::rows) {
    for (std::int64_t row = 0; row < t.rows; ++row) {
#pragma omp simd
      for (std::int64_t i = 0; i < t.columns; ++i) numbers[row * t.to_row + i] = from[row * t.from_row + i];
    }
    return;
  }
  for (std::int64_t row = 0; row < t.rows; row += 2) {
    const float* const first = from + row * t.from_row;
    float* const both = numbers + row * t.to_row;
    for (std::int64_t i = 0; i < t.columns; i += native_width) {
      const auto mixed = Alternating<L::Floats>::of(L::load(first + i), L::load(first + t.from_row + i));
      L::store(both + 2 * i, mixed.first);
      L::store(both + 2 * i + native_width, mixed.second);
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
