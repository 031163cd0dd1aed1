#include "kernels/cpu/simd/panel_rows.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

/// A square: each round of mixing turns one bit of the place in a row into one of the row.
[[gnu::always_inline]] inline void square(const float* from, std::int64_t from_row, float* to,
                                          std::int64_t to_row) {
  constexpr int half = native_width / 2;
  Floats rows[native_width];
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) rows[i] = L::load(from + i * from_row);
#pragma GCC unroll 4
  for (int bit = 1; bit < native_width; bit *= 2) {
    Floats mixes[native_width];
#pragma GCC unroll 8
    for (int i = 0; i < half; ++i) {
      const auto [first, second] = Alternating<Floats>::of(rows[i], rows[i + half]);
      mixes[2 * i] = first;
      mixes[2 * i + 1] = second;
    }
#pragma GCC unroll 16
    for (int i = 0; i < native_width; ++i) rows[i] = mixes[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < native_width; ++i) L::store(to + i * to_row, rows[i]);
}

constexpr std::int64_t panel = PanelProduct::columns;
constexpr int vectors = panel / native_width;

template <class Rows, bool adds_up>
void copy(const PanelCopy& copy, const void* matrix, void* to, float* sums) {
  const auto* from = static_cast<const typename Rows::Element*>(matrix);
  auto* words = static_cast<typename Rows::Word*>(to);
  Floats totals[vectors] = {};
  for (std::int64_t row = 0; row < copy.rows; row += Rows::terms, words += panel) {
    typename Rows::Vector copied[vectors];
    Rows::copy(from + row * copy.from_row, copy.from_row, row + 1 < copy.rows, words, copied);
#pragma GCC unroll 16
    for (int i = 0; i < (adds_up ? vectors : 0); ++i) Rows::add(totals[i], copied[i]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < (adds_up ? vectors : 0); ++i) {
    float* const sum = sums + i * native_width;
    L::store(sum, L::load(sum) + totals[i]);
  }
}

template <class Rows>
void copy(const PanelCopy& c, const void* from, void* to, float* sums) {
  sums == nullptr ? copy<Rows, false>(c, from, to, sums) : copy<Rows, true>(c, from, to, sums);
}

}  // namespace

void run(const PanelCopy& c, const void* from, void* to, float* sums) {
  c.dtype == DType::bf16 ? copy<Bf16Rows>(c, from, to, sums) : copy<FloatRows>(c, from, to, sums);
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
