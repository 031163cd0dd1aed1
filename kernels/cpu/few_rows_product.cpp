#include "kernels/cpu/few_rows_product.h"

#include <omp.h>

#include <algorithm>

#include "kernels/cpu/linear_panel_parts.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/panel_product.h"

namespace lockstep::kernels {
namespace {

using linear_panels::chunk;
using linear_panels::panel;

/// As many as a panel of the transposed factor holds; from fewer than these a panel's first rows do not make
/// the others.
constexpr std::int64_t most_rows = panel, fewest_rows = 4;

}  // namespace

bool FewRowsProduct::is_faster(MatmulPrecision precision) const {
  return linear_panels::is_faster(LinearBackwardData{.precision = precision}, factors) &&
         rows >= fewest_rows && rows <= most_rows && columns % panel == 0 && depth % terms() == 0;
}

std::size_t FewRowsProduct::workspace_bytes() const {
  const std::int64_t transposed = rows * depth / terms();
  return static_cast<std::size_t>(rounded_up(transposed, cache_line_floats) +
                                  omp_get_max_threads() * chunk * panel) *
         sizeof(float);
}

/// Terms from `term` on, at most a chunk of words, of columns [column, end).
void FewRowsProduct::add_chunk(const std::byte* b, const float* transposed, std::int64_t term,
                               std::int64_t column, std::int64_t end, float* c, float* copied) const {
  const std::int64_t count = std::min(chunk * terms(), depth - term);
  const PanelCopy copy{count, columns, factors};
  float sums[panel];  // of b's columns, which nobody asks for
  PanelProduct product{rows, count / terms(), 0, columns};
  product.a_term = rows;
  product.accumulates = accumulates || term > 0;
  product.factors = factors;
  product.copy = &copy;
  product.from_sums = sums;
  product.next_row = columns * bytes();
  product.next_bytes = panel * bytes();
  const auto at = [&](std::int64_t row, std::int64_t from) { return b + (row * columns + from) * bytes(); };
  for (std::int64_t from = column; from < end; from += panel) {
    const bool is_last = from + panel >= end;
    std::fill_n(sums, panel, 0.0F);
    product.from = at(term, from);
    product.next = is_last ? at(term + count, column) : at(term, from + panel);
    product.next_rows = is_last ? std::min(count, depth - term - count) : count;
    simd::best<PanelProduct>()(product, transposed + term / terms() * rows, copied, c + from);
  }
}

void FewRowsProduct::run(const void* a, const void* b, float* c, void* workspace) const {
  auto* const transposed = static_cast<float*>(workspace);
  float* const panels = transposed + rounded_up(rows * depth / terms(), cache_line_floats);
  const std::int64_t words = depth / terms();
  simd::best<Transpose>()({rows, words, words, rows}, static_cast<const float*>(a), transposed);
  parallel_ranges(columns / panel, rows * depth * columns, 1, [&](std::int64_t begin, std::int64_t end) {
    float* const copied = panels + omp_get_thread_num() * chunk * panel;
    for (std::int64_t term = 0; term < depth; term += chunk * terms()) {
      add_chunk(static_cast<const std::byte*>(b), transposed, term, begin * panel, end * panel, c, copied);
    }
  });
}

}  // namespace lockstep::kernels
