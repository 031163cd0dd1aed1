#pragma once

#include <cstdint>
#include <optional>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// A row-major tensor as a matrix whose rows are its last dimension, with room behind its rows and columns:
/// `stride` elements from row to row, `all_rows` of them. What lies there is zero.
struct PaddedRows {
  std::int64_t rows, columns;
  std::int64_t all_rows, stride;
};

/// Nothing for a tensor that lies otherwise: room may be behind its first dimension and its last alone. Of a
/// vector the one dimension is the last.
inline std::optional<PaddedRows> padded_rows(const TensorDesc& desc) {
  const Layout layout = desc.layout_or_row_major();
  const Shape& shape = desc.shape;
  const Shape& padded = layout.padded;
  const std::size_t rank = shape.rank();
  if (rank == 0 || padded.rank() != rank || layout != Layout::row_major(padded)) return std::nullopt;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const bool has_room = axis == 0 || axis + 1 == rank;
    if (has_room ? padded[axis] < shape[axis] : padded[axis] != shape[axis]) return std::nullopt;
  }
  const auto rows_of = [rank](const Shape& extents) {
    std::int64_t rows = 1;
    for (std::size_t axis = 0; axis + 1 < rank; ++axis) rows *= extents[axis];
    return rows;
  };
  return PaddedRows{rows_of(shape), shape[rank - 1], rows_of(padded), padded[rank - 1]};
}

/// Row-major, with rows of `stride` elements.
inline Layout rows_of_stride(Shape shape, std::int64_t stride) {
  shape[shape.rank() - 1] = stride;
  return Layout::row_major(shape);
}

}  // namespace lockstep::kernels
