#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "kernels/base/division.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/recurrent_operands.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/panel_product.h"

/// How the CPU's team shares the steps of a recurrent layer, and the memory that it does so in.
namespace lockstep::kernels {

/// Blocks of units, whose products with the state are the columns of a panel. A thread keeps its blocks for
/// all steps, so that its part of the weights stays in its caches; a block's numbers do not depend on who
/// computes it.
struct RecurrentBlocks {
  static constexpr std::int64_t columns = PanelProduct::columns;

  RecurrentSize size;
  DType dtype;
  std::int64_t units;  ///< of a block
  std::int64_t depth;  ///< terms of a product

  std::int64_t count() const { return parts_of(size.hidden, units); }
  std::int64_t weights() const { return depth * columns; }  ///< numbers of a block
  std::int64_t factor_row() const { return odd_lines(depth); }
  std::int64_t product_gate() const { return count() * units; }
  std::int64_t product_row() const { return odd_lines(columns / units * product_gate()); }

  /// Of a block's packed weights. Those of all blocks may be more than a second cache keeps from step to
  /// step: then they are fetched ahead of their use, beyond the block's end from the next one.
  PanelProduct product(const float* packed) const {
    constexpr auto row_bytes = columns * static_cast<std::int64_t>(sizeof(float));
    PanelProduct product{size.rows, depth, factor_row(), product_row(), product_gate(), units};
    product.next = packed + PanelProduct::most_depth * columns;
    product.next_row = product.next_bytes = row_bytes;
    product.next_rows = count() * depth * row_bytes > PanelProduct::second_cache ? depth : 0;
    return product;
  }
  /// Of the blocks [begin, end).
  RecurrentProducts products(const float* all, std::int64_t begin) const {
    return {all + begin * units, product_row(), product_gate()};
  }
  RecurrentPart part(std::int64_t begin, std::int64_t end, std::int64_t step,
                     const std::int64_t* lengths) const {
    const std::int64_t first = std::min(begin * units, size.hidden);
    return {size, dtype, DType::f32, step, first, std::min(end * units, size.hidden) - first, lengths};
  }
  void clear_products(float* all, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t row = 0; row < size.rows; ++row) {
      for (std::int64_t gate = 0; gate < columns / units; ++gate) {
        std::fill_n(all + row * product_row() + gate * product_gate() + begin * units, (end - begin) * units,
                    0.0F);
      }
    }
  }

  /// `body(first block, end)` on the team; every thread calls it, also one without blocks, and may
  /// `wait_for_all`.
  template <class Body>
  void on_team(const Body& body) const {
    const std::int64_t work = size.rows * weights() * count();
    if (work < 2 * parallel_grain || count() == 1 || omp_get_max_threads() == 1) {
      return body(std::int64_t{0}, count());
    }
#pragma omp parallel
    {
      const std::int64_t team = omp_get_num_threads();
      const std::int64_t thread = omp_get_thread_num();
      body(count() * thread / team, count() * (thread + 1) / team);
    }
  }
};

/// Of the team that the calling thread is in; alone it waits for nobody.
inline void wait_for_all() {
#pragma omp barrier
}

/// Columns of one step of a tensor (T, N, ...), a row for each of its rows. In bytes.
struct StepColumns {
  const void* at;
  std::int64_t row, bytes;
};

/// A part's units in each of `groups` groups of H columns.
template <std::size_t groups, class Element>
std::array<StepColumns, groups> step_columns(const RecurrentPart& part, const Element* tensor) {
  constexpr auto element = static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t row = part.size.hidden * static_cast<std::int64_t>(groups);
  std::array<StepColumns, groups> columns;
  for (std::size_t group = 0; group < groups; ++group) {
    const auto first = static_cast<std::int64_t>(group) * part.size.hidden + part.first;
    columns[group] = {tensor + part.step * part.size.rows * row + first, row * element, part.count * element};
  }
  return columns;
}

/// A kernel's workspace, or with `at` null only its size.
class RecurrentWorkspace {
 public:
  /// `states`: numbers kept from step to step, beside the factors.
  RecurrentWorkspace(const RecurrentBlocks& blocks, std::int64_t states, float* at) : at_(at) {
    weights = take(blocks.count() * blocks.weights());
    products = take(blocks.size.rows * blocks.product_row());
    for (float*& side : factors) side = take(blocks.size.rows * blocks.factor_row());
    cells = take(states);
    before = take(states);
    zeros = take(blocks.size.hidden);
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_) * sizeof(float); }

  float* weights;
  float* products;
  float* factors[2];  ///< the products' left side, of this step and the next in turn
  float* cells;
  float* before;
  float* zeros;  ///< a row

 private:
  float* take(std::int64_t floats) {
    float* const piece = at_ == nullptr ? nullptr : at_ + used_;
    used_ += rounded_up(floats, cache_line_floats);
    return piece;
  }

  float* at_;
  std::int64_t used_ = 0;
};

/// The products of blocks [begin, end), all rows. The last of them fetch what is read `next`.
inline void multiply(const RecurrentBlocks& blocks, const float* factors, const RecurrentWorkspace& memory,
                     std::int64_t begin, std::int64_t end, std::span<const StepColumns> next) {
  const auto kernel = simd::best<PanelProduct>();
  for (std::int64_t block = begin; block < end; ++block) {
    float* const weights = memory.weights + block * blocks.weights();
    PanelProduct product = blocks.product(weights);
    if (const auto left = static_cast<std::size_t>(end - 1 - block); left < next.size()) {
      product.next = next[left].at;
      product.next_row = next[left].row;
      product.next_bytes = next[left].bytes;
      product.next_rows = blocks.size.rows;
    }
    kernel(product, factors, weights, memory.products + block * blocks.units);
  }
}

/// The rows of the weights (G H, H) that make a block's gates, as the columns of its panel.
template <class Element>
void pack_rows(const RecurrentBlocks& blocks, std::int64_t block, std::int64_t gates, const Element* w,
               float* to) {
  const RecurrentPart part = blocks.part(block, block + 1, 0, nullptr);
  const std::int64_t hidden = blocks.size.hidden;
  std::fill_n(to, blocks.weights(), 0.0F);
  for (std::int64_t gate = 0; gate < gates; ++gate) {
    const Element* const from = w + (gate * hidden + part.first) * hidden;
    float* const first = to + gate * blocks.units;
    if constexpr (std::is_same_v<Element, float>) {
      simd::best<Transpose>()({part.count, hidden, hidden, RecurrentBlocks::columns}, from, first);
      continue;
    }
    for (std::int64_t k = 0; k < hidden; ++k) {
      for (std::int64_t u = 0; u < part.count; ++u)
        first[k * RecurrentBlocks::columns + u] = wide(from[u * hidden + k]);
    }
  }
}

/// The columns of the weights that belong to a block's units.
template <class Element>
void pack_columns(const RecurrentBlocks& blocks, std::int64_t block, const Element* w, float* to) {
  const RecurrentPart part = blocks.part(block, block + 1, 0, nullptr);
  if constexpr (std::is_same_v<Element, float>) {
    if (part.count == RecurrentBlocks::columns) {
      simd::best<PanelCopy>()({blocks.depth, blocks.size.hidden}, w + part.first, to, nullptr);
      return;
    }
  }
  for (std::int64_t k = 0; k < blocks.depth; ++k) {
    const Element* const from = w + k * blocks.size.hidden + part.first;
    float* const row = to + k * RecurrentBlocks::columns;
    for (std::int64_t u = 0; u < part.count; ++u) row[u] = wide(from[u]);
    std::fill(row + part.count, row + RecurrentBlocks::columns, 0.0F);
  }
}

}  // namespace lockstep::kernels
