#include "kernels/cpu/simd/lanes.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {

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
