#include "kernels/panel_product.h"

#include <algorithm>

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

struct F32 {
  using Word = float;
  static constexpr bool transposes = false;  ///< a
  static Floats load(const Word* from) { return L::load(from); }
  [[gnu::always_inline]] static inline void add_products(Floats& sum, Word a, Floats b) { sum += a * b; }
};

struct Bf16Pairs {
  using Word = std::uint32_t;
  static constexpr bool transposes = true;
  static L::Words load(const Word* from) { return L::load_words(from); }
  [[gnu::always_inline]] static inline void add_products(Floats& sum, Word a, L::Words b) {
    L::add_products(sum, L::Words{} + a, b);
  }
};

/// What a call of `block` works on: a and b from a term on, c from a row on.
template <class Word>
struct Place {
  const Word* a;
  const Word* b;
  float* c;
  std::int64_t depth;
  bool accumulates;
};

void put(float* c, Floats sums, bool accumulates) {
  L::store(c, accumulates ? L::load(c) + sums : sums);
}

/// Columns from `first` on.
template <class Factors, int rows>
[[gnu::always_inline]] inline void block(const PanelProduct& p, const Place<typename Factors::Word>& at,
                                         std::int64_t first) {
  Floats sums[rows][vectors] = {};
  const auto* a = at.a;
  const auto* b = at.b + first;
  for (std::int64_t k = 0; k < at.depth; ++k) {
    decltype(Factors::load(b)) factors[vectors];
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) factors[i] = Factors::load(b + i * native_width);
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
      const auto factor = Factors::transposes ? a[row] : a[row * p.a_row];
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) Factors::add_products(sums[row][i], factor, factors[i]);
    }
    a += Factors::transposes ? panel : 1;
    b += panel;
  }
  if (rows % 2 == 0 && p.pairs_rows) {
#pragma GCC unroll 8
    for (int row = 0; row + 1 < rows; row += 2) {
      float* const c = at.c + row * p.c_row + 2 * first;
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) {
        const auto both = Alternating<Floats>::of(sums[row][i], sums[row + 1][i]);
        put(c + 2 * i * native_width, both.first, at.accumulates);
        put(c + (2 * i + 1) * native_width, both.second, at.accumulates);
      }
    }
    return;
  }
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    const std::int64_t column = first + i * native_width;
    float* c = at.c + column / p.units * p.c_group + column % p.units;
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row, c += p.c_row) put(c, sums[row][i], at.accumulates);
  }
}

template <class Factors, int rows>
void columns(const PanelProduct& p, const Place<typename Factors::Word>& at) {
  for (std::int64_t first = 0; first < panel; first += vectors * native_width) {
    block<Factors, rows>(p, at, first);
  }
}

/// Rows [fetched, end) of what comes next, into the second cache.
void fetch(const PanelProduct& p, std::int64_t& fetched, std::int64_t end) {
  constexpr std::int64_t line = 64;
  for (; fetched < end; ++fetched) {
    const char* const from = static_cast<const char*>(p.next) + fetched * p.next_row;
    for (std::int64_t at = 0; at < p.next_bytes; at += line) __builtin_prefetch(from + at, 0, 2);
  }
}

/// Of `left` rows: blocks differ by one at most, so none of them is left with a row or two; or by two, of an
/// even number of rows each.
std::int64_t rows_of_block(std::int64_t left, bool even) {
  const std::int64_t blocks = (left + most_rows - 1) / most_rows;
  const std::int64_t count = (left + blocks - 1) / blocks;
  return even ? (count + 1) / 2 * 2 : count;
}

template <class Factors>
void multiply(const PanelProduct& p, const typename Factors::Word* a, const typename Factors::Word* b,
              float* c) {
  using Columns = void(const PanelProduct&, const Place<typename Factors::Word>&);
  constexpr Columns* by_rows[] = {columns<Factors, 1>, columns<Factors, 2>, columns<Factors, 3>,
                                  columns<Factors, 4>, columns<Factors, 5>, columns<Factors, 6>};
  std::int64_t fetched = 0;
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = p.depth - k < most_depth ? p.depth - k : most_depth;
    for (std::int64_t row = 0; row < p.rows;) {
      const std::int64_t in_panel = row % panel;
      const std::int64_t left = Factors::transposes ? std::min(panel - in_panel, p.rows - row) : p.rows - row;
      const std::int64_t count = rows_of_block(left, p.pairs_rows);
      const auto* const factors =
          Factors::transposes ? a + row / panel * p.a_row + k * panel + in_panel : a + row * p.a_row + k;
      by_rows[count - 1](p, {factors, b + k * panel, c + row * p.c_row, depth, p.accumulates || k > 0});
      row += count;
      fetch(p, fetched, p.next_rows * (k * p.rows + depth * row) / (p.depth * p.rows));
    }
  }
}

}  // namespace

void run(const PanelProduct& p, const void* a, const void* b, float* c) {
  if (p.factors == DType::bf16) {
    return multiply<Bf16Pairs>(p, static_cast<const std::uint32_t*>(a), static_cast<const std::uint32_t*>(b),
                               c);
  }
  multiply<F32>(p, static_cast<const float*>(a), static_cast<const float*>(b), c);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
