#pragma once

#include <cstdint>
#include <string_view>

/// Parts of the CPU's matrix products by SIMD kernels of our own: those of recurrent layers, and the
/// gradients of linear maps. A right side is packed into panels of 64 columns, a row (64 numbers) behind
/// another.
namespace lockstep::kernels {

/// c = a b, or c += a b: b (depth, 64) is a panel, rows of a and c are `a_row` and `c_row` apart. c's columns
/// lie in groups of `units`, `c_group` apart. Sums are taken in the order of `depth`.
struct PanelProduct {
  static constexpr std::string_view name = "panel_product";
  static constexpr std::int64_t columns = 64;
  using Simd = void(const PanelProduct&, const float* a, const float* b, float* c);

  std::int64_t rows, depth, a_row;
  std::int64_t c_row, c_group = columns, units = columns;
  bool accumulates = false;
  /// What will be read next, fetched meanwhile: rows of 128 numbers, so far apart.
  const float* next = nullptr;
  std::int64_t next_row = 0, next_rows = 0;
};

/// Columns of a row-major matrix into a panel; `sums` (64), which may be null, are
/// added to, over the rows in their order.
struct PanelCopy {
  static constexpr std::string_view name = "panel_copy";
  using Simd = void(const PanelCopy&, const float* from, float* panel, float* sums);

  std::int64_t rows, from_row;
};

/// to (columns, rows) = the transpose of from (rows, columns).
struct Transpose {
  static constexpr std::string_view name = "transpose";
  using Simd = void(const Transpose&, const float* from, float* to);

  std::int64_t rows, columns;
  std::int64_t from_row, to_row;
};

}  // namespace lockstep::kernels
