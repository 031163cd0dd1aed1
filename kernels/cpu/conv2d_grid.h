#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/base/half.h"
#include "kernels/conv2d.h"
#include "kernels/matmul.h"
#include "kernels/tile_product.h"

/// Pictures of both sides of a convolution in equal grids, so that each weight of a filter joins places of x
/// and y at one distance: sum over p of x[p] y[p - distance]. With a stride of s x is taken as s * s
/// pictures, one for each phase. What a grid has beyond its picture is zero, and enough that no distance
/// leads from a picture's row or column into the next one's.
namespace lockstep::kernels {

namespace conv2d_tiles {

/// Sums of two rows and two columns of tiles, which lie side by side.
inline constexpr std::int64_t square = Tile::pair * Tile::pair;

/// Channels side by side.
inline bool are_channels_last(const TensorDesc& pictures) {
  return has_layout(channels_last(pictures.shape), pictures);
}

}  // namespace conv2d_tiles

struct ConvAxis {
  std::int64_t stride, padding, dilation, weights, in, out;

  ConvAxis(const Conv2dGeometry& g, const MatmulOperands& t, std::size_t axis)
      : stride(g.stride[axis]),
        padding(g.padding[axis]),
        dilation(g.dilation[axis]),
        weights(t.w.shape[axis + 2]),
        in(t.x.shape[axis + 2]),
        out(t.y.shape[axis + 2]),
        least_(std::min<std::int64_t>(0, distance(0))),
        most_(std::max<std::int64_t>(0, distance(weights - 1))),
        grid_(std::max(out + most_, extent(0) - least_)) {}

  std::int64_t phase(std::int64_t weight) const { return (reach(weight) % stride + stride) % stride; }
  std::int64_t distance(std::int64_t weight) const { return (reach(weight) - phase(weight)) / stride; }
  /// The weight of a phase at a distance, of a filter without dilation; one that is not there has no
  /// distance.
  std::int64_t weight(std::int64_t at, std::int64_t phase) const { return at * stride + phase + padding; }
  /// Elements of x that a phase has.
  std::int64_t extent(std::int64_t phase) const { return parts_of(in - phase, stride); }

  std::int64_t least() const { return least_; }
  std::int64_t most() const { return most_; }
  std::int64_t grid() const { return grid_; }

 private:
  std::int64_t reach(std::int64_t weight) const { return weight * dilation - padding; }

  std::int64_t least_, most_, grid_;  ///< kept, as they are asked for row by row
};

/// Channels-last pictures, or a phase of them.
struct GridPictures {
  const BFloat16* data;
  std::int64_t height, width, channels;  ///< whole
  std::int64_t row_stride = 1, column_stride = 1;
  std::int64_t first_row = 0, first_column = 0;
};

/// What meets a plane at one distance: a row and a column of the filter or, of narrow inputs, distances.
struct Tap {
  std::int64_t row, column;
  std::int64_t distance;
};

/// A phase of x, and the weights that meet it.
struct Plane {
  std::int64_t row, column;
  std::vector<Tap> taps;
};

struct ConvGrid {
  std::int64_t pictures;
  ConvAxis rows, columns;

  ConvGrid(const Conv2dGeometry& g, const MatmulOperands& t)
      : pictures(t.x.shape[0]), rows(g, t, 0), columns(g, t, 1), pitch_(columns.grid()) {}

  /// Then distances of an even number of columns are even.
  ConvGrid with_even_pitch() const {
    ConvGrid even = *this;
    even.pitch_ += pitch_ % 2;
    return even;
  }

  std::int64_t pitch() const { return pitch_; }
  std::int64_t all_rows() const { return pictures * rows.grid(); }
  std::int64_t distance(std::int64_t row, std::int64_t column) const {
    return rows.distance(row) * pitch() + columns.distance(column);
  }
  /// Also those that no weight meets.
  std::vector<Plane> planes() const {
    std::vector<Plane> all;
    for (std::int64_t row = 0; row < rows.stride; ++row) {
      for (std::int64_t column = 0; column < columns.stride; ++column) all.push_back({row, column, {}});
    }
    for (std::int64_t row = 0; row < rows.weights; ++row) {
      for (std::int64_t column = 0; column < columns.weights; ++column) {
        const std::int64_t plane = rows.phase(row) * columns.stride + columns.phase(column);
        all[static_cast<std::size_t>(plane)].taps.push_back({row, column, distance(row, column)});
      }
    }
    return all;
  }
  std::int64_t least() const { return rows.least() * pitch() + columns.least(); }
  std::int64_t most() const { return rows.most() * pitch() + columns.most(); }
  /// Rows that distances lead to before a row and behind it.
  std::int64_t rows_before() const { return parts_of(most(), pitch()); }
  std::int64_t rows_behind() const { return (pitch() - 1 - least()) / pitch(); }

  /// Rows [begin, end) of all pictures' grids, one behind another; those before the first and behind the last
  /// picture are zero.
  void copy(const GridPictures& from, std::int64_t begin, std::int64_t end, BFloat16* to) const {
    for (std::int64_t row = begin; row < end; ++row, to += pitch() * from.channels) copy_row(from, row, to);
  }

 private:
  void copy_row(const GridPictures& from, std::int64_t grid_row, BFloat16* to) const {
    const std::int64_t picture = grid_row / rows.grid();
    const std::int64_t row = grid_row % rows.grid() * from.row_stride + from.first_row;
    const bool is_there = grid_row >= 0 && picture < pictures && row < from.height;
    const std::int64_t pixels = is_there ? parts_of(from.width - from.first_column, from.column_stride) : 0;
    const BFloat16* const first =
        from.data + ((picture * from.height + row) * from.width + from.first_column) * from.channels;
    const auto bytes_of = [&](std::int64_t count) {
      return static_cast<std::size_t>(count * from.channels) * sizeof(BFloat16);
    };
    if (from.column_stride == 1) {
      if (is_there) std::memcpy(to, first, bytes_of(pixels));
    } else {
      for (std::int64_t i = 0; i < pixels; ++i) {
        std::memcpy(to + i * from.channels, first + i * from.column_stride * from.channels, bytes_of(1));
      }
    }
    std::memset(static_cast<void*>(to + pixels * from.channels), 0, bytes_of(pitch() - pixels));
  }

  std::int64_t pitch_;
};

/// Filters (O, I, KH, KW) as the library has them for AMX: in squares of 32 inputs, two side by side, by a
/// panel of outputs.
struct SquareFilters {
  std::int64_t panel;
  Shape strides;

  static std::optional<SquareFilters> of(const TensorDesc& w) {
    const Layout layout = w.layout_or_row_major();
    const auto& blocks = layout.blocks;
    const bool fits = blocks.size() == 3 && blocks[0] == Layout::Block{1, 16} && blocks[1].dim == 0 &&
                      blocks[1].size % Tile::pair == 0 && blocks[2] == Layout::Block{1, 2} &&
                      w.shape[0] % blocks[1].size == 0 && w.shape[1] % Tile::pair == 0;
    return fits ? std::optional(SquareFilters{blocks[1].size, layout.strides}) : std::nullopt;
  }

  std::int64_t offset(std::int64_t output, std::int64_t input, const Tap& tap) const {
    return output / panel * strides[0] + output % panel * 2 + input / Tile::pair * strides[1] +
           tap.row * strides[2] + tap.column * strides[3];
  }
};

}  // namespace lockstep::kernels
