#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/base/half.h"
#include "kernels/cpu/classifier_products.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {

/// Products of a chunk of rows with a block of classes (kernels/cpu/classifier_products.h) in bf16, by tiles,
/// where the processor has AMX. Logits are made, and their gradients read, some rows at a time, which the
/// second cache holds beside the packed weights. Rows of logits and of their gradient have room for whole
/// tiles; the gradient is 0 there.
class ClassifierTiles {
 public:
  /// `keeps`: whether `pass_logits` and `hits` are asked for.
  ClassifierTiles(const ClassifierSize& size, bool keeps) : size_(size), keeps_(keeps) {}

  std::size_t workspace_bytes() const;

  /// x of a chunk, for all its blocks.
  void pack(const BFloat16* x, std::int64_t rows, bool for_gradient, std::byte* workspace) const;

  /// logits = x w^T; `done(begin, end)` when rows of it are there.
  template <class Done>
  void logits(const BFloat16* w, std::int64_t rows, std::int64_t columns, float* logits, std::byte* workspace,
              const Done& done) const {
    pack_columns(w, columns, weights(workspace));
    for_strips(rows, columns, [&](std::int64_t row, std::int64_t squares) {
      const std::int64_t padded = ClassifierSize::whole_tiles(columns);
      multiply_logits(row, squares, padded, logits + row * padded, workspace);
      done(row, row + squares * Tile::pair);
    });
  }

  /// The same in memory of the thread's own, where the next rows follow: `done(begin, end, logits)`.
  template <class Done>
  void pass_logits(const BFloat16* w, std::int64_t rows, std::int64_t columns, std::byte* workspace,
                   const Done& done) const {
    pack_columns(w, columns, weights(workspace));
    for_strips(rows, columns, [&](std::int64_t row, std::int64_t squares) {
      float* const logits = own_logits(workspace);
      multiply_logits(row, squares, ClassifierSize::whole_tiles(columns), logits, workspace);
      done(row, row + squares * Tile::pair, logits);
    });
  }

  /// The logit of each row's class, without bias: to the bit what the products above have there.
  void hits(const BFloat16* w, ClassifierRow* of, std::int64_t rows, std::byte* workspace) const;

  /// dx = gradient w, or dx += gradient w; `fill(begin, end)` writes rows of the gradient.
  template <class Fill>
  void dx(const BFloat16* gradient, const BFloat16* w, std::int64_t rows, std::int64_t columns, float* dx,
          bool accumulates, std::byte* workspace, const Fill& fill) const {
    pack_pairs(w, columns, weights(workspace));
    for_strips(rows, columns, [&](std::int64_t row, std::int64_t squares) {
      fill(row, row + squares * Tile::pair);
      multiply_dx(gradient, row, squares, ClassifierSize::whole_tiles(columns), dx, accumulates, workspace);
    });
  }

  /// dw = gradient^T x, or dw += gradient^T x.
  void dweight(const BFloat16* gradient, std::int64_t rows, std::int64_t columns, float* dw, bool accumulates,
               std::byte* workspace) const;

 private:
  /// Squares of rows, or of columns, that a thread takes at a time.
  static constexpr std::int64_t strip = 4;
  /// Rows of a sum of weights' gradients at a time.
  static constexpr std::int64_t most_rows = 1024;

  template <class Body>
  void for_strips(std::int64_t rows, std::int64_t columns, const Body& body) const {
    parallel_ranges(rows / Tile::pair, rows * columns, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; at += strip) {
        body(at * Tile::pair, std::min(strip, end - at));
      }
    });
  }

  void pack_columns(const BFloat16* w, std::int64_t columns, std::byte* tiles) const;
  void pack_pairs(const BFloat16* w, std::int64_t columns, std::byte* tiles) const;
  void multiply_logits(std::int64_t row, std::int64_t squares, std::int64_t columns, float* logits,
                       std::byte* workspace) const;
  void multiply_dx(const BFloat16* gradient, std::int64_t row, std::int64_t squares, std::int64_t columns,
                   float* dx, bool accumulates, std::byte* workspace) const;

  std::int64_t block() const { return ClassifierSize::whole_tiles(size_.block); }

  // The workspace: x in rows and in pairs of rows, weights of a block, and of each thread a strip and logits.
  std::int64_t x_bytes() const { return 2 * size_.chunk * size_.inputs; }
  /// Which hold the weights of a pair of rows' classes, too.
  std::int64_t strip_bytes() const {
    return 2 * std::max(strip * Tile::pair * std::max(block(), most_rows), Tile::pair * size_.inputs);
  }
  std::byte* weights(std::byte* workspace) const { return workspace + 2 * x_bytes(); }
  std::byte* own_strip(std::byte* workspace) const;
  std::int64_t logit_bytes() const {
    return keeps_ ? std::max(4 * strip * Tile::pair * block(), 2 * Tile::pair * size_.inputs) : 0;
  }
  float* own_logits(std::byte* workspace) const;
  /// Sums of weights' gradients that reach behind the last class.
  std::int64_t end_bytes() const { return 4 * Tile::pair * size_.inputs; }
  float* end_sums(std::byte* workspace) const;

  ClassifierSize size_;
  bool keeps_;
  std::int64_t threads_ = omp_get_max_threads();
};

}  // namespace lockstep::kernels
