#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/base/division.h"
#include "kernels/base/half.h"
#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/tiles.h"
#include "kernels/tile_product.h"

/// Places of a grid as rows of tiles, the left factor of products that add up all weights of a filter at
/// once: 32 channels of a place in a tile's row and one place behind another, so that a tile may begin at any
/// place.
namespace lockstep::kernels::conv2d_tiles {

/// Places whose sums are computed at a time, about: what they are sums of and the filters of 32 of their
/// channels stay in the second cache.
inline constexpr std::int64_t places_at_once = 1024;
/// Squares of places that a thread takes at a time.
inline constexpr std::int64_t strip = 8;

/// Whether all three tensors are such that a convolution, or its gradient of data, is a product of places.
inline bool are_places(const Conv2dGeometry& geometry, const MatmulOperands& t) {
  return multiplies_by_tiles() && geometry.groups == 1 && t.x.dtype == DType::bf16 &&
         t.w.dtype == DType::bf16 && t.y.dtype == DType::bf16 && are_channels_last(t.x) &&
         are_channels_last(t.y) && SquareFilters::of(t.w);
}

/// Rows of the grid of all pictures that are computed at a time.
struct Chunk {
  std::int64_t first, rows;
};

inline std::int64_t chunk_rows(const ConvGrid& grid) {
  return std::clamp<std::int64_t>(places_at_once / grid.pitch(), 1, grid.all_rows());
}

/// The tiles of a chunk and of the rows before and behind it, 32 channels ("a part") after 32 channels.
class PackedPlaces {
 public:
  PackedPlaces(const ConvGrid& grid, std::int64_t channels, std::int64_t rows_before,
               std::int64_t rows_behind)
      : grid_(grid), channels_(channels), before_(rows_before), behind_(rows_behind) {}

  std::int64_t parts() const { return channels_ / Tile::terms; }
  /// The last square of a chunk may reach behind it.
  std::int64_t part_bytes() const {
    const std::int64_t squares = parts_of(copied(chunk_rows(grid_)) * grid_.pitch(), Tile::pair) + 1;
    return squares * Tile::pair * Tile::row_bytes;
  }
  std::int64_t bytes() const { return parts() * part_bytes(); }
  /// Of the rows that are copied before they are packed.
  std::int64_t copy_bytes() const {
    return copied(chunk_rows(grid_)) * grid_.pitch() * channels_ *
           static_cast<std::int64_t>(sizeof(BFloat16));
  }
  /// From the first tile to the chunk's first place.
  std::int64_t first_place_bytes() const { return before_ * grid_.pitch() * Tile::row_bytes; }

  void pack(const GridPictures& pictures, const Chunk& chunk, std::byte* copy, std::byte* tiles) const {
    auto* const rows = reinterpret_cast<BFloat16*>(copy);
    const std::int64_t row = grid_.pitch() * channels_;
    const std::int64_t count = copied(chunk.rows);
    parallel_ranges(count, count * row, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t from = chunk.first - before_;
      grid_.copy(pictures, from + begin, from + end, rows + begin * row);
    });
    const TileRows places{count * grid_.pitch(), Tile::terms, channels_, Tile::bytes};
    parallel_ranges(parts(), count * row, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        simd::best<TileRows>()(places, rows + part * Tile::terms, tiles + part * part_bytes());
      }
    });
  }

 private:
  std::int64_t copied(std::int64_t rows) const { return before_ + rows + behind_; }

  ConvGrid grid_;
  std::int64_t channels_, before_, behind_;
};

/// Sums of places of the grid, 32 channels each, to the pixels of channels-last pictures, or of a phase of
/// them, where the places have some. `to`: the first of these channels.
struct PixelWriter {
  std::int64_t grid_rows, pitch;
  std::int64_t height, width, channels;  ///< of whole pictures
  std::int64_t row_stride = 1, column_stride = 1;
  std::int64_t first_row = 0, first_column = 0;

  void write(std::int64_t begin, std::int64_t end, const float* sums, BFloat16* to) const {
    const std::int64_t pixels = parts_of(width - first_column, column_stride);
    for (std::int64_t place = begin; place < end;) {
      const std::int64_t grid_row = place / pitch;
      const std::int64_t column = place % pitch;
      const std::int64_t until = std::min(end, (grid_row + 1) * pitch);
      const std::int64_t row = grid_row % grid_rows * row_stride + first_row;
      const std::int64_t count = std::min(until - place, pixels - column);
      if (count > 0 && row < height) {
        const std::int64_t line = grid_row / grid_rows * height + row;
        const std::int64_t pixel = line * width + column * column_stride + first_column;
        const TileResult result{.rows = count,
                                .columns = Tile::pair,
                                .from_row = Tile::pair,
                                .to_row = column_stride * channels,
                                .as = TileResult::As::bf16};
        simd::best<TileResult>()(result, sums + (place - begin) * Tile::pair, to + pixel * channels);
      }
      place = until;
    }
  }
};

}  // namespace lockstep::kernels::conv2d_tiles
