#include "kernels/panel_product.h"

#include "kernels/cpu/simd/lanes.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr std::int64_t panel = PanelProduct::columns;
constexpr int vectors = native_width == 16 ? 4 : 2;  ///< of a row of c that are summed at once
constexpr int most_rows = 6;                         ///< whose sums stay in registers
constexpr std::int64_t most_depth = 128;             ///< so many rows of b stay in the first cache

/// What a call of `block` works on: a and b from a term on, c from a row on.
struct Place {
  const float* a;
  const float* b;
  float* c;
  std::int64_t depth;
  bool accumulates;
};

/// Columns from `first` on.
template <int rows>
[[gnu::always_inline]] inline void block(const PanelProduct& p, const Place& at, std::int64_t first) {
  Floats sums[rows][vectors] = {};
  const float* a = at.a;
  const float* b = at.b + first;
  for (std::int64_t k = 0; k < at.depth; ++k) {
    Floats factors[vectors];
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) factors[i] = L::load(b + i * native_width);
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
      const float factor = a[row * p.a_row];
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) sums[row][i] += factor * factors[i];
    }
    ++a;
    b += panel;
  }
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    const std::int64_t column = first + i * native_width;
    float* c = at.c + column / p.units * p.c_group + column % p.units;
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row, c += p.c_row)
      L::store(c, at.accumulates ? L::load(c) + sums[row][i] : sums[row][i]);
  }
}

template <int rows>
void columns(const PanelProduct& p, const Place& at) {
  for (std::int64_t first = 0; first < panel; first += vectors * native_width) block<rows>(p, at, first);
}

using Columns = void(const PanelProduct&, const Place&);
constexpr Columns* by_rows[] = {columns<1>, columns<2>, columns<3>, columns<4>, columns<5>, columns<6>};

/// Rows [fetched, end) of what comes next, into the second cache.
void fetch(const PanelProduct& p, std::int64_t& fetched, std::int64_t end) {
  constexpr std::int64_t line = 16;
  for (; fetched < end; ++fetched) {
    const float* const from = p.next + fetched * p.next_row;
    for (std::int64_t column = 0; column < 2 * panel; column += line) __builtin_prefetch(from + column, 0, 2);
  }
}

}  // namespace

/// Blocks of rows that differ by one at most: none of them is left with a row or two.
void run(const PanelProduct& p, const float* a, const float* b, float* c) {
  std::int64_t fetched = 0;
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = p.depth - k < most_depth ? p.depth - k : most_depth;
    for (std::int64_t row = 0; row < p.rows;) {
      const std::int64_t left = p.rows - row;
      const std::int64_t blocks = (left + most_rows - 1) / most_rows;
      const std::int64_t count = (left + blocks - 1) / blocks;
      by_rows[count - 1](
          p, {a + row * p.a_row + k, b + k * panel, c + row * p.c_row, depth, p.accumulates || k > 0});
      row += count;
      fetch(p, fetched, p.next_rows * (k * p.rows + depth * row) / (p.depth * p.rows));
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
