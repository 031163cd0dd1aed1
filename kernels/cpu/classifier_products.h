#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/classifier.h"
#include "kernels/cpu/few_rows_product.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/tiles.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {

/// How the logits (rows, classes) are cut, by the shape alone. A chunk of rows exists at a time: as many as
/// 128 MiB hold, since each chunk reads all weights and adds to all of their gradients. It is taken in blocks
/// of columns: a block's gradient stays in the second cache from the pass that makes it to the products that
/// read it.
struct ClassifierSize {
  /// Of a block's rows: a bit less than 2 KiB of f32 or 4 KiB of logits, since rows at such a distance share
  /// the sets of a cache.
  static constexpr std::int64_t most_floats = 480, most_halves = 992;

  std::int64_t rows, inputs, classes;
  std::int64_t chunk, block;

  ClassifierSize(const MatmulSize& size, const ClassifierLoss& op, DType gradient)
      : rows(size.rows), inputs(size.inputs), classes(size.outputs) {
    constexpr std::int64_t chunk_bytes = 128 << 20;
    const std::int64_t most = std::max<std::int64_t>(32, chunk_bytes / (classes * 4));
    chunk = equal_parts(rows, op.chunk > 0 ? op.chunk : most);
    block = equal_parts(classes, gradient == DType::f32 ? most_floats : most_halves);
  }

  std::int64_t chunks() const { return parts_of(rows, chunk); }
  std::int64_t blocks() const { return parts_of(classes, block); }
  /// In whole tiles, as their products are.
  static constexpr std::int64_t whole_tiles(std::int64_t columns) { return rounded_up(columns, Tile::pair); }
};

/// The products of each block of each chunk; those of equal shapes are one.
struct ClassifierProducts {
  /// Products by their places in `all`, unless they are computed by tiles.
  struct Step {
    std::int64_t first, columns;
    std::int64_t row;  ///< numbers from a row of logits, or of their gradient, to the next
    bool by_tiles;
    std::size_t logits, dx, dweight;
    std::optional<FewRowsProduct> dx_of_few_rows;  ///< in the place of `dx`
  };

  std::vector<Matmul> all;
  std::vector<Step> steps;  ///< chunk by chunk
  bool has_gradient;

  ClassifierProducts(const onednn::Context& context, const ClassifierSize& size, DType dtype,
                     MatmulPrecision precision, bool with_gradient)
      : has_gradient(with_gradient) {
    const bool may_use_tiles = dtype == DType::bf16 && tiles_are_fast(size.inputs);
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, int, bool>, std::size_t> known;
    const auto place_of = [&](int kind, const MatmulSpec& spec) {
      const auto [at, is_new] =
          known.try_emplace({spec.m, spec.n, spec.k, kind, spec.accumulate}, all.size());
      if (is_new) all.emplace_back(context, spec);
      return at->second;
    };
    for (std::int64_t begin = 0; begin < size.rows; begin += size.chunk) {
      const std::int64_t rows = std::min(size.chunk, size.rows - begin);
      for (std::int64_t first = 0; first < size.classes; first += size.block) {
        const std::int64_t columns = std::min(size.block, size.classes - first);
        const bool by_tiles = may_use_tiles && fills_tiles(rows);
        Step step{.first = first,
                  .columns = columns,
                  .row = by_tiles ? ClassifierSize::whole_tiles(columns) : columns,
                  .by_tiles = by_tiles,
                  .logits = 0,
                  .dx = 0,
                  .dweight = 0,
                  .dx_of_few_rows = std::nullopt};
        if (by_tiles) {
          steps.push_back(step);
          continue;
        }
        step.logits = place_of(0, {.m = rows,
                                   .n = columns,
                                   .k = size.inputs,
                                   .transpose_b = true,
                                   .dtype = dtype,
                                   .precision = precision});
        if (has_gradient) {
          const FewRowsProduct dx{rows, columns, size.inputs, first > 0, dtype};
          if (dx.is_faster(precision)) {
            step.dx_of_few_rows = dx;
          } else {
            step.dx = place_of(1, {.m = rows,
                                   .n = size.inputs,
                                   .k = columns,
                                   .accumulate = first > 0,
                                   .dtype = dtype,
                                   .precision = precision});
          }
          step.dweight = place_of(2, {.m = columns,
                                      .n = size.inputs,
                                      .k = rows,
                                      .transpose_a = true,
                                      .accumulate = begin > 0,
                                      .dtype = dtype,
                                      .precision = precision});
        }
        steps.push_back(step);
      }
    }
  }

  bool uses_tiles() const { return std::ranges::any_of(steps, &Step::by_tiles); }
  /// Whether exponentials of all logits are kept in bf16, and not the logits (kernels/classifier.h).
  bool keeps_exponentials() const { return has_gradient && std::ranges::all_of(steps, &Step::by_tiles); }

  /// They run one after another.
  std::size_t workspace_bytes() const {
    std::size_t most = 0;
    for (const Matmul& product : all) most = std::max(most, product.workspace_bytes());
    for (const Step& step : steps) {
      if (step.dx_of_few_rows) most = std::max(most, step.dx_of_few_rows->workspace_bytes());
    }
    return most;
  }

 private:
  static bool tiles_are_fast(std::int64_t inputs) {
    return multiplies_by_tiles() && inputs % Tile::pair == 0;
  }

  /// Of fewer rows packing the weights takes longer than the products: lstm's 32 took 5.0 to 6.2 ms, 4.3 by
  /// the library.
  static bool fills_tiles(std::int64_t rows) {
    constexpr std::int64_t fewest_rows = 64;
    return rows >= fewest_rows && rows % Tile::pair == 0;
  }
};

}  // namespace lockstep::kernels
