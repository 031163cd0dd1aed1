#include "kernels/cpu/simd/lanes.h"
#include "kernels/recurrent.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr std::int64_t panel = RecurrentPart::columns;
constexpr int vectors = native_width == 16 ? 4 : 2;  ///< of a row of c that are summed at once
constexpr int most_rows = 6;                         ///< whose sums stay in registers
constexpr std::int64_t most_depth = 128;             ///< so many rows of b stay in the first cache

template <int rows>
[[gnu::always_inline]] inline void block(const float* a, std::int64_t stride, const float* b,
                                         std::int64_t depth, bool accumulates, float* c) {
  Floats sums[rows][vectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    Floats factors[vectors];
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) factors[i] = L::load(b + i * native_width);
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
      const float factor = a[row * stride];
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) sums[row][i] += factor * factors[i];
    }
    ++a;
    b += panel;
  }
#pragma GCC unroll 8
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) {
      float* const to = c + row * panel + i * native_width;
      L::store(to, accumulates ? L::load(to) + sums[row][i] : sums[row][i]);
    }
  }
}

template <int rows>
void columns(const float* a, std::int64_t stride, const float* b, std::int64_t depth, bool accumulates,
             float* c) {
  for (std::int64_t first = 0; first < panel; first += vectors * native_width) {
    block<rows>(a, stride, b + first, depth, accumulates, c + first);
  }
}

using Columns = void(const float*, std::int64_t, const float*, std::int64_t, bool, float*);
constexpr Columns* by_rows[] = {columns<1>, columns<2>, columns<3>, columns<4>, columns<5>, columns<6>};

}  // namespace

/// Blocks of rows that differ by one at most: none of them is left with a row or two.
void run(const RecurrentProduct& p, const float* a, const float* b, float* c) {
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = p.depth - k < most_depth ? p.depth - k : most_depth;
    for (std::int64_t row = 0; row < p.rows;) {
      const std::int64_t left = p.rows - row;
      const std::int64_t blocks = (left + most_rows - 1) / most_rows;
      const std::int64_t count = (left + blocks - 1) / blocks;
      by_rows[count - 1](a + row * p.stride + k, p.stride, b + k * panel, depth, k > 0, c + row * panel);
      row += count;
    }
  }
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
