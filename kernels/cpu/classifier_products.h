#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/classifier.h"
#include "kernels/cpu/matmul.h"

namespace lockstep::kernels {

/// How the logits (rows, classes) are cut, by the shape alone. A chunk of rows exists at a time: as many as
/// 128 MiB hold, since each chunk reads all weights and adds to all of their gradients. It is taken in blocks
/// of columns: a block's gradient stays in the second cache from the pass that makes it to the products that
/// read it.
struct ClassifierSize {
  std::int64_t rows, inputs, classes;
  std::int64_t chunk, block;

  ClassifierSize(const MatmulSize& size, const ClassifierLoss& op, DType gradient)
      : rows(size.rows), inputs(size.inputs), classes(size.outputs) {
    constexpr std::int64_t chunk_bytes = 128 << 20;
    const std::int64_t most = std::max<std::int64_t>(32, chunk_bytes / (classes * 4));
    chunk = equal_parts(rows, op.chunk > 0 ? op.chunk : most);
    block = equal_parts(classes, 2048 / static_cast<std::int64_t>(size_of(gradient)));
  }

  std::int64_t chunks() const { return (rows + chunk - 1) / chunk; }
  std::int64_t blocks() const { return (classes + block - 1) / block; }
};

/// The products of each block of each chunk; those of equal shapes are one.
struct ClassifierProducts {
  /// Products by their places in `all`.
  struct Step {
    std::int64_t first, columns;
    std::size_t logits, dx, dweight;
  };

  std::vector<Matmul> all;
  std::vector<Step> steps;  ///< chunk by chunk

  ClassifierProducts(const onednn::Context& context, const ClassifierSize& size, DType dtype,
                     MatmulPrecision precision, bool has_gradient) {
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
        Step step{.first = first, .columns = columns, .logits = 0, .dx = 0, .dweight = 0};
        step.logits = place_of(0, {.m = rows,
                                   .n = columns,
                                   .k = size.inputs,
                                   .transpose_b = true,
                                   .dtype = dtype,
                                   .precision = precision});
        if (has_gradient) {
          step.dx = place_of(1, {.m = rows,
                                 .n = size.inputs,
                                 .k = columns,
                                 .accumulate = first > 0,
                                 .dtype = dtype,
                                 .precision = precision});
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

  /// They run one after another.
  std::size_t workspace_bytes() const {
    std::size_t most = 0;
    for (const Matmul& product : all) most = std::max(most, product.workspace_bytes());
    return most;
  }
};

}  // namespace lockstep::kernels
