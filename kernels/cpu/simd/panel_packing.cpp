#include <utility>

#include "kernels/cpu/simd/lanes.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

/// a0 b0 a1 b1 ... of the halves that begin at `first`.
template <int first, std::size_t... i>
[[gnu::always_inline]] inline Floats mixed(Floats a, Floats b, std::index_sequence<i...>) {
  return __builtin_shufflevector(a, b, (first + static_cast<int>(i / 2 + i % 2 * native_width))...);
}

/// A square: each round of mixing turns one bit of the place in a row into one of the row.
[[gnu::always_inline]] inline void square(const float* from, std::int64_t from_row, float* to,
                                          std::int64_t to_row) {
  constexpr int half = native_width / 2;
  constexpr auto places = std::make_index_sequence<native_width>{};
  Floats rows[native_width];
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) rows[i] = L::load(from + i * from_row);
#pragma GCC unroll 4
  for (int bit = 1; bit < native_width; bit *= 2) {
    Floats mixes[native_width];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) {
      mixes[2 * i] = mixed<0>(rows[i], rows[i + half], places);
      mixes[2 * i + 1] = mixed<half>(rows[i], rows[i + half], places);
    }
#pragma GCC unroll 16
    for (int i = 0; i < native_width; ++i) rows[i] = mixes[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) L::store(to + i * to_row, rows[i]);
}

}  // namespace

void run(const PanelCopy& copy, const float* from, float* panel, float* sums) {
  constexpr int vectors = PanelProduct::columns / native_width;
  Floats totals[vectors] = {};
  for (std::int64_t row = 0; row < copy.rows; ++row, from += copy.from_row, panel += PanelProduct::columns) {
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      const Floats values = L::load(from + i * native_width);
      L::store(panel + i * native_width, values);
      totals[i] += values;
    }
  }
  if (sums == nullptr) return;
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    float* const sum = sums + i * native_width;
    L::store(sum, L::load(sum) + totals[i]);
  }
}

void run(const Transpose& t, const float* from, float* to) {
  constexpr int n = native_width;
  const std::int64_t rows = t.rows / n * n;
  const std::int64_t columns = t.columns / n * n;
  for (std::int64_t row = 0; row < rows; row += n) {
    for (std::int64_t column = 0; column < columns; column += n) {
      square(from + row * t.from_row + column, t.from_row, to + column * t.to_row + row, t.to_row);
    }
  }
  for (std::int64_t row = 0; row < t.rows; ++row) {
    for (std::int64_t column = row < rows ? columns : 0; column < t.columns; ++column) {
      to[column * t.to_row + row] = from[row * t.from_row + column];
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
