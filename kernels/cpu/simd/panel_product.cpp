#include "kernels/panel_product.h"

#include <algorithm>

#include "kernels/cpu/simd/panel_rows.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr std::int64_t panel = PanelProduct::columns;
constexpr int vectors = native_width == 16 ? 4 : 2;  ///< of a row of c that are summed at once
constexpr int most_rows = 6;                         ///< whose sums stay in registers
constexpr int copying_rows = 4;                      ///< beside what else b's copy wants of registers
constexpr std::int64_t most_depth = PanelProduct::most_depth;

/// The factors: their words, and how a lies.
template <class Rows, bool transposed>
struct Factors : Rows {
  static constexpr bool transposes = transposed;  ///< a
};

/// Lines of what comes next, on their way into the second cache.
class Fetching {
 public:
  explicit Fetching(const PanelProduct& p) : p_(p), row_(static_cast<const char*>(p.next)) {}

  /// Until `rows` of them all.
  void aim_at(std::int64_t rows) { wanted_ = rows; }
  [[gnu::always_inline]] void fetch_line() {
    if (rows_ >= wanted_) return;
    __builtin_prefetch(row_ + at_, 0, 2);
    at_ += line;
    if (at_ < p_.next_bytes) return;
    at_ = 0;
    row_ += p_.next_row;
    ++rows_;
  }
  void fetch_all() {
    while (rows_ < wanted_) fetch_line();
  }

 private:
  static constexpr std::int64_t line = 64;

  const PanelProduct& p_;
  const char* row_;
  std::int64_t at_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t wanted_ = 0;
};

/// What a call of `block` works on: a and b from a term on, c from a row on.
template <class Rows>
struct Place {
  const typename Rows::Word* a;
  typename Rows::Word* b;
  float* c;
  std::int64_t depth;
  bool accumulates;
  const typename Rows::Element* from = nullptr;  ///< of b
  std::int64_t from_rows = 0;
};

void put(float* c, Floats sums, bool accumulates) {
  L::store(c, accumulates ? L::load(c) + sums : sums);
}

/// Columns from `first` on. `copies`: b is made meanwhile, and its sums.
template <class F, int rows, bool copies>
[[gnu::always_inline]] inline void block(const PanelProduct& p, const Place<F>& at, std::int64_t first,
                                         Fetching& next) {
  Floats sums[rows][vectors] = {};
  Floats totals[vectors] = {};
  const auto* a = at.a;
  auto* b = at.b + first;
  const auto* from = copies ? at.from + first : nullptr;
  for (std::int64_t k = 0; k < at.depth; ++k) {
    typename F::Vector factors[vectors];
    if constexpr (copies) {
      F::copy(from, p.copy->from_row, (k + 1) * F::terms <= at.from_rows, b, factors);
      from += F::terms * p.copy->from_row;
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) F::add(totals[i], factors[i]);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) factors[i] = F::load(b + i * native_width);
    }
#pragma GCC unroll 8
    for (int row = 0; row < rows; ++row) {
      const auto factor = F::transposes ? a[row] : a[row * p.a_row];
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) F::add_products(sums[row][i], factor, factors[i]);
    }
    next.fetch_line();
    a += F::transposes ? p.a_term : 1;
    b += panel;
  }
  if constexpr (copies) {
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) put(p.from_sums + first + i * native_width, totals[i], true);
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

template <class F, int rows, bool copies = false>
void columns(const PanelProduct& p, const Place<F>& at, Fetching& next) {
  for (std::int64_t first = 0; first < panel; first += vectors * native_width) {
    block<F, rows, copies>(p, at, first, next);
  }
}

/// Of `left` rows: blocks differ by one at most, so none of them is left with a row or two; or by two, of an
/// even number of rows each.
std::int64_t rows_of_block(std::int64_t left, bool even) {
  const std::int64_t blocks = (left + most_rows - 1) / most_rows;
  const std::int64_t count = (left + blocks - 1) / blocks;
  return even ? (count + 1) / 2 * 2 : count;
}

template <class F>
void multiply(const PanelProduct& p, const void* of_a, void* of_b, float* c) {
  using Columns = void(const PanelProduct&, const Place<F>&, Fetching&);
  constexpr Columns* by_rows[] = {columns<F, 1>, columns<F, 2>, columns<F, 3>,
                                  columns<F, 4>, columns<F, 5>, columns<F, 6>};
  const auto* const a = static_cast<const typename F::Word*>(of_a);
  auto* const b = static_cast<typename F::Word*>(of_b);
  Fetching next(p);
  for (std::int64_t k = 0; k < p.depth; k += most_depth) {
    const std::int64_t depth = p.depth - k < most_depth ? p.depth - k : most_depth;
    for (std::int64_t row = 0; row < p.rows;) {
      const std::int64_t in_panel = row % panel;
      const std::int64_t left = F::transposes ? std::min(panel - in_panel, p.rows - row) : p.rows - row;
      const auto* const factors =
          F::transposes ? a + row / panel * p.a_row + k * p.a_term + in_panel : a + row * p.a_row + k;
      Place<F> at{factors, b + k * panel, c + row * p.c_row, depth, p.accumulates || k > 0};
      std::int64_t count = rows_of_block(left, p.pairs_rows);
      const bool copies = F::transposes && p.copy != nullptr && row == 0;
      if (copies) count = copying_rows;
      next.aim_at(p.next_rows * (k * p.rows + depth * (row + count)) / (p.depth * p.rows));
      if (copies) {
        const std::int64_t done = k * F::terms;
        at.from = static_cast<const typename F::Element*>(p.from) + done * p.copy->from_row;
        at.from_rows = p.copy->rows - done;
        columns<F, copying_rows, true>(p, at, next);
      } else {
        by_rows[count - 1](p, at, next);
      }
      row += count;
      next.fetch_all();
    }
  }
}

}  // namespace

void run(const PanelProduct& p, const void* a, void* b, float* c) {
  if (p.factors == DType::bf16) return multiply<Factors<Bf16Rows, true>>(p, a, b, c);
  p.a_term != 0 ? multiply<Factors<FloatRows, true>>(p, a, b, c)
                : multiply<Factors<FloatRows, false>>(p, a, b, c);
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
