#include "kernels/cpu/simd/lanes.h"
#include "kernels/winograd_conv2d.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr std::int64_t panel = WinogradTiles::panel;
constexpr int most_rows = native_width == 16 ? 12 : 6;  ///< whose sums stay in registers, two vectors of each
constexpr std::int64_t most_depth = 32;                 ///< terms of a partial sum: short ones round less

/// What a call of `block` works on: rows of a and c from the first on, and one or two vectors of columns.
struct Place {
  const float* a;
  const float* b[2];
  float* c[2];
};

/// a's element (row, k) is at row * panel + k % panel of the panel of k or, transposed, at k * panel + row.
template <int rows, int vectors, bool transposes>
[[gnu::always_inline]] inline void block(const WinogradProduct& p, const Place& at, std::int64_t depth,
                                         bool accumulates) {
  Floats sums[rows][vectors] = {};
  const float* a = at.a;
  std::int64_t from = 0;
  const auto add = [&](std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      Floats factors[vectors];
#pragma GCC unroll 2
      for (int i = 0; i < vectors; ++i) factors[i] = L::load(at.b[i] + from);
#pragma GCC unroll 16
      for (int row = 0; row < rows; ++row) {
        const float factor = transposes ? a[row] : a[row * panel];
#pragma GCC unroll 2
        for (int i = 0; i < vectors; ++i) sums[row][i] += factor * factors[i];
      }
      a += transposes ? panel : 1;
      from += panel;
    }
  };
  if (transposes) {
    add(depth);
  } else {
    for (std::int64_t k = 0; k < depth; k += panel, a += p.a_panel - panel) add(panel);
  }
#pragma GCC unroll 16
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < vectors; ++i) {
      float* const c = at.c[i] + row * panel;
      L::store(c, accumulates ? L::load(c) + sums[row][i] : sums[row][i]);
    }
  }
}

/// `count` rows, as many at once as registers hold, and then the rest of them.
template <int rows, int vectors, bool transposes>
void blocks(const WinogradProduct& p, Place at, std::int64_t count, std::int64_t depth, bool accumulates) {
  for (; count >= rows; count -= rows) {
    block<rows, vectors, transposes>(p, at, depth, accumulates);
    at.a += transposes ? rows : rows * panel;
    for (float*& c : at.c) c += rows * panel;
  }
  if constexpr (rows > 1) {
    if (count > 0) blocks<rows - 1, vectors, transposes>(p, at, count, depth, accumulates);
  }
}

/// All rows, for `depth` from k on.
template <int vectors, bool transposes>
void columns(const WinogradProduct& p, const Place& at, std::int64_t k, std::int64_t depth) {
  const bool accumulates = p.accumulates || k > 0;
  const auto from = [&](const float* a, std::int64_t row) {
    return Place{
        a, {at.b[0] + k * panel, at.b[1] + k * panel}, {at.c[0] + row * panel, at.c[1] + row * panel}};
  };
  if (!transposes) {
    return blocks<most_rows, vectors, false>(p, from(at.a + k / panel * p.a_panel, 0), p.rows, depth,
                                             accumulates);
  }
  for (std::int64_t row = 0; row < p.rows; row += panel) {
    blocks<most_rows, vectors, true>(p, from(at.a + row / panel * p.a_panel + k * panel, row), panel, depth,
                                     accumulates);
  }
}

/// All of c in `vectors` vectors of columns.
template <int vectors>
void product(const WinogradProduct& p, const Place& at) {
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = p.depth - k < most_depth ? p.depth - k : most_depth;
    if (p.transposes)
      columns<vectors, true>(p, at, k, depth);
    else
      columns<vectors, false>(p, at, k, depth);
  }
}

}  // namespace

void run(const WinogradProduct& p, const float* a, const float* b, float* c) {
  const std::int64_t n = p.panels * panel;
  const auto offset = [](std::int64_t i, std::int64_t stride) { return i / panel * stride + i % panel; };
  for (std::int64_t column = 0; column < n; column += 2 * native_width) {
    const bool has_second = column + native_width < n;
    const std::int64_t second = has_second ? column + native_width : column;
    const Place at{a,
                   {b + offset(column, p.b_panel), b + offset(second, p.b_panel)},
                   {c + offset(column, p.c_panel), c + offset(second, p.c_panel)}};
    if (has_second)
      product<2>(p, at);
    else
      product<1>(p, at);  // an odd number of panels, each as wide as a register
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
