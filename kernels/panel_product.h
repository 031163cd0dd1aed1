#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/base/dtype.h"

/// Parts of the CPU's matrix products by SIMD kernels of our own: those of recurrent layers, and the
/// gradients of linear maps. A factor is packed into panels of 64 columns, a row of words of 32 bits behind
/// another: of an f32, or of two rows of bf16, the first of them in the lower half.
namespace lockstep::kernels {

/// Columns of a row-major matrix into a panel of words; of bf16, an odd last row is paired with zeros. `sums`
/// (64), which may be null, are added to, over the rows in their order.
struct PanelCopy {
  static constexpr std::string_view name = "panel_copy";
  using Simd = void(const PanelCopy&, const void* from, void* panel, float* sums);

  std::int64_t rows, from_row;
  DType dtype = DType::f32;
};

/// c = a b, or c += a b, in f32: b (depth, 64) is a panel of words, rows of c are `c_row` apart. c's columns
/// lie in groups of `units`, `c_group` apart. Sums are taken in the order of `depth`. Of bf16, the
/// instruction set AVX512_BF16 (VDPBF16PS) takes denormal factors and sums as zeros.
struct PanelProduct {
  static constexpr std::string_view name = "panel_product";
  static constexpr std::int64_t columns = 64;
  static constexpr std::int64_t most_depth = 128;  ///< rows of b at a time: they stay in the first cache
  /// Matrices up to so many bytes are in a second cache without being fetched ahead (`next`).
  static constexpr std::int64_t second_cache = 1 << 20;
  using Simd = void(const PanelProduct&, const void* a, void* b, float* c);

  std::int64_t rows, depth;
  std::int64_t a_row;  ///< words from row to row of a; where it is transposed, from panel to panel
  std::int64_t c_row, c_group = columns, units = columns;
  bool accumulates = false;
  DType factors = DType::f32;  ///< or bf16
  /// a is transposed: 64 of its rows are the columns of a panel, whose words are so many apart from term to
  /// term. 0: a is not, as f32 may be.
  std::int64_t a_term = 0;
  bool pairs_rows = false;  ///< numbers of two rows of c alternate, from the first row's place on
  /// Where a is transposed and c has 4 rows at least: what b is made from meanwhile, as PanelCopy does. Null:
  /// b is there.
  const PanelCopy* copy = nullptr;
  const void* from = nullptr;
  float* from_sums = nullptr;
  /// What will be read next, fetched meanwhile: rows of `next_bytes`, `next_row` bytes apart.
  const void* next = nullptr;
  std::int64_t next_row = 0, next_bytes = 0, next_rows = 0;
};

/// to (columns, rows) = the transpose of from (rows, columns).
struct Transpose {
  static constexpr std::string_view name = "transpose";
  using Simd = void(const Transpose&, const float* from, float* to);

  std::int64_t rows, columns;
  std::int64_t from_row, to_row;
};

}  // namespace lockstep::kernels
