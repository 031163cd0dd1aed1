#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/tile_product.h"

/// x of a convolution as the left factor of its weights' gradients by tiles: planes of grids, each with the
/// weights of the filter that it meets, and where in dw their sums belong.
namespace lockstep::kernels::conv2d_tiles {

/// Inputs that fill pairs of tiles: a plane for each phase.
class WideInputs {
 public:
  static std::optional<WideInputs> of(const ConvGrid& grid, const MatmulOperands& t) {
    const auto filters = SquareFilters::of(t.w);
    if (!filters) return std::nullopt;
    WideInputs inputs(t.x.shape[1], *filters);
    inputs.planes_ = grid.planes();
    std::erase_if(inputs.planes_, [](const Plane& plane) { return plane.taps.empty(); });
    return inputs;
  }

  const std::vector<Plane>& planes() const { return planes_; }
  std::int64_t columns() const { return count_; }
  std::int64_t channels() const { return count_; }  ///< of a place that is copied
  std::int64_t overlap() const { return 0; }

  void copy(const ConvGrid& grid, const Plane& plane, const BFloat16* x, std::int64_t begin, std::int64_t end,
            BFloat16* to) const {
    grid.copy({x, grid.rows.in, grid.columns.in, count_, grid.rows.stride, grid.columns.stride, plane.row,
               plane.column},
              begin, end, to);
  }

  /// Squares of the `pair`-th 32 inputs, one for each 32 outputs of [first, last).
  void write(const ConvGrid&, const Tap& tap, std::int64_t pair, std::int64_t first, std::int64_t last,
             const float* sums, float* dw) const {
    const TileResult result{.rows = Tile::pair,
                            .columns = Tile::pair,
                            .from_row = Tile::pair,
                            .to_row = filters_.panel,
                            .as = TileResult::As::pairs_of_rows};
    for (std::int64_t output = first; output < last; output += Tile::pair, sums += square) {
      simd::best<TileResult>()(result, sums, dw + filters_.offset(output, pair * Tile::pair, tap));
    }
  }

 private:
  WideInputs(std::int64_t count, const SquareFilters& filters) : count_(count), filters_(filters) {}

  std::int64_t count_;
  SquareFilters filters_;
  std::vector<Plane> planes_;
};

/// Groups of numbers, each to the beginning of a tile's row.
using CopyGroups = void(const BFloat16* from, std::int64_t groups, BFloat16* to);

template <std::size_t length>
void copy_groups(const BFloat16* from, std::int64_t groups, BFloat16* to) {
  for (; groups > 0; --groups, from += length, to += Tile::rows) {
    std::memcpy(to, from, length * sizeof(BFloat16));
  }
}

/// For each length: one that is known when it is compiled needs no call, which took longer than the copy.
template <std::size_t... lengths>
constexpr std::array<CopyGroups*, sizeof...(lengths)> group_copies(std::index_sequence<lengths...>) {
  return {copy_groups<lengths>...};
}

/// Inputs so few that all phases of a place fill no more than a tile, as pictures have: one plane, of which a
/// pair of tiles holds each place and its neighbour, which meets what lies one column further.
class NarrowInputs {
 public:
  /// Nothing where filters do not lie in whole blocks of 16 outputs.
  static std::optional<NarrowInputs> of(const ConvGrid& grid, const MatmulOperands& t) {
    const Layout layout = t.w.layout_or_row_major();
    const std::int64_t count = t.x.shape[1];
    const bool fits = t.y.shape[1] % Tile::rows == 0 &&
                      count * grid.rows.stride * grid.columns.stride <= Tile::rows &&
                      layout.blocks == std::vector<Layout::Block>{{0, Tile::rows}} &&
                      grid.rows.dilation == 1 && grid.columns.dilation == 1;
    if (!fits) return std::nullopt;
    NarrowInputs inputs(count, layout.strides);
    for (std::int64_t row = grid.rows.distance(0); row <= grid.rows.distance(grid.rows.weights - 1); ++row) {
      for (std::int64_t column = grid.columns.distance(0);
           column <= grid.columns.distance(grid.columns.weights - 1); column += 2) {
        inputs.planes_[0].taps.push_back({row, column, row * grid.pitch() + column});
      }
    }
    return inputs;
  }

  const std::vector<Plane>& planes() const { return planes_; }
  std::int64_t columns() const { return Tile::pair; }
  std::int64_t channels() const { return Tile::rows; }
  /// Places behind a range that its last one reads, and places before the first that read it.
  std::int64_t overlap() const { return 1; }

  void copy(const ConvGrid& grid, const Plane&, const BFloat16* x, std::int64_t begin, std::int64_t end,
            BFloat16* to) const {
    std::memset(static_cast<void*>(to), 0,
                static_cast<std::size_t>((end - begin) * grid.pitch() * Tile::rows) * sizeof(BFloat16));
    const ConvAxis& rows = grid.rows;
    const ConvAxis& columns = grid.columns;
    const std::int64_t together = columns.stride * count_;
    static constexpr auto copies = group_copies(std::make_index_sequence<Tile::rows + 1>());
    CopyGroups* const copy_whole = copies[static_cast<std::size_t>(together)];
    for (std::int64_t at = std::max<std::int64_t>(0, begin); at < std::min(end, grid.all_rows()); ++at) {
      BFloat16* const place = to + (at - begin) * grid.pitch() * Tile::rows;
      for (std::int64_t phase = 0; phase < rows.stride; ++phase) {
        const std::int64_t row = at % rows.grid() * rows.stride + phase;
        if (row >= rows.in) continue;
        const BFloat16* const from = x + (at / rows.grid() * rows.in + row) * columns.in * count_;
        const std::int64_t groups = columns.in * count_ / together;
        BFloat16* const group = place + phase * together;
        copy_whole(from, groups, group);
        std::copy(from + groups * together, from + columns.in * count_, group + groups * Tile::rows);
      }
    }
  }

  void write(const ConvGrid& grid, const Tap& tap, std::int64_t, std::int64_t first, std::int64_t last,
             const float* sums, float* dw) const {
    for (std::int64_t i = 0; i < Tile::pair; ++i) {
      const std::int64_t number = i % Tile::rows;
      const std::int64_t phases = number / count_;
      const std::int64_t row = grid.rows.weight(tap.row, phases / grid.columns.stride);
      const std::int64_t column =
          grid.columns.weight(tap.column + i / Tile::rows, phases % grid.columns.stride);
      if (phases >= grid.rows.stride * grid.columns.stride || row < 0 || row >= grid.rows.weights ||
          column < 0 || column >= grid.columns.weights) {
        continue;
      }
      float* const weight = dw + number % count_ * strides_[1] + row * strides_[2] + column * strides_[3];
      for (std::int64_t output = first; output < last; output += Tile::rows) {
        const std::int64_t at = output - first;
        const float* const from = sums + at / Tile::pair * square + i * Tile::pair + at % Tile::pair;
        std::copy_n(from, Tile::rows, weight + output / Tile::rows * strides_[0]);
      }
    }
  }

 private:
  NarrowInputs(std::int64_t count, const Shape& strides) : count_(count), strides_(strides) {}

  std::int64_t count_;
  Shape strides_;
  std::vector<Plane> planes_{1};
};

}  // namespace lockstep::kernels::conv2d_tiles
