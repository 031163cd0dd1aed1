#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/matmul.h"

namespace lockstep::kernels {

/// c (rows, columns) f32 = a (rows, depth) b (depth, columns) [+ c], row-major, of few rows, by panels of b
/// (kernels/panel_product.h): each is packed while the product's first rows are computed, where the library
/// packs all of b before. Sums are taken in the order of `depth`.
struct FewRowsProduct {
  std::int64_t rows, depth, columns;
  bool accumulates;
  DType factors;  ///< f32 or bf16

  /// Whether the product takes this shape here and is faster than the library's.
  bool is_faster(MatmulPrecision precision) const;

  std::size_t workspace_bytes() const;
  void run(const void* a, const void* b, float* c, void* workspace) const;

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_of(factors)); }
  /// Terms of a word of a panel.
  std::int64_t terms() const { return static_cast<std::int64_t>(sizeof(float)) / bytes(); }
  void add_chunk(const std::byte* b, const float* transposed, std::int64_t term, std::int64_t column,
                 std::int64_t end, float* c, float* panel) const;
};

}  // namespace lockstep::kernels
