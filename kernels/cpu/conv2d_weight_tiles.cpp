#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/base/alignment.h"
#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/conv2d_inputs.h"
#include "kernels/cpu/conv2d_tiles.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/tiles.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {
namespace {

using namespace conv2d_tiles;

/// Bytes of packed x and dy at a time, about: with the sums they stay in the second cache. More are slower by
/// up to 1.3 (ResNet-18), fewer read and write sums more often, and pack the rows between two chunks twice.
constexpr std::int64_t bytes_at_once = 704 << 10;
/// Places of the grid, at least: with half as many the sums take more than the products save.
constexpr std::int64_t least_at_once = 1024;
/// Squares of outputs that all inputs and weights meet before the next ones: dy of them stays in the second
/// cache.
constexpr std::int64_t outputs_at_once = 8;

/// dw^T = x^T dy, weight by weight, over all places of the grid. Words of packed dy hold two neighbours, so
/// it is packed for even distances and for odd ones, where there are both.
template <class Inputs>
class WeightGradient {
 public:
  WeightGradient(const ConvGrid& grid, Inputs inputs, std::int64_t outputs)
      : grid_(grid), inputs_(std::move(inputs)), outputs_(outputs) {
    for (const Plane& plane : inputs_.planes()) {
      for (const Tap& tap : plane.taps) (from(tap) % 2 == 0 ? even_ : odd_) = true;
    }
  }

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(rows_bytes() + x_bytes() + 2 * dy_bytes() + sums_bytes());
  }

  struct Arguments {
    const BFloat16* x;
    const BFloat16* dy;
    float* dw;
    std::byte* workspace;
  };

  void run(const Arguments& a) const {
    for (Chunk chunk{first_row(), 0}; chunk.first < grid_.all_rows(); chunk.first += chunk.rows) {
      chunk.rows = std::min(chunk_rows(), grid_.all_rows() - chunk.first);
      pack_dy(a, chunk);
      std::int64_t kept = 0;
      for (const Plane& plane : inputs_.planes()) {
        pack_x(a, chunk, plane);
        const auto taps = static_cast<std::int64_t>(plane.taps.size());
        const std::int64_t count = input_pairs() * taps;
        const std::int64_t work = count * chunk.rows * grid_.pitch() * outputs_;
        parallel_ranges(count * output_parts(), work, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t sums = i % count;
            add_up(a, chunk, plane.taps[static_cast<std::size_t>(sums % taps)],
                   {.pair = sums / taps, .first = i / count * outputs_at_once, .kept = kept + sums});
          }
        });
        kept += count;
      }
    }
  }

 private:
  /// Rows of the grid.
  struct Chunk {
    std::int64_t first, rows;
  };

  /// 32 inputs, some of the outputs, and whose sums they are.
  struct Squares {
    std::int64_t pair, first, kept;
  };

  std::int64_t input_pairs() const { return inputs_.columns() / Tile::pair; }
  std::int64_t output_pairs() const { return parts_of(outputs_, Tile::pair); }
  std::int64_t output_parts() const { return parts_of(output_pairs(), outputs_at_once); }
  std::int64_t first_row() const { return -inputs_.overlap(); }
  std::int64_t all_rows() const { return grid_.all_rows() - first_row(); }
  std::int64_t chunk_rows() const {
    const std::int64_t numbers = inputs_.columns() + 2 * outputs_;
    const std::int64_t places =
        std::max(least_at_once, bytes_at_once / (numbers * static_cast<std::int64_t>(sizeof(BFloat16))));
    return std::clamp<std::int64_t>(places / grid_.pitch(), 1, all_rows());
  }
  bool has_chunks() const { return chunk_rows() < all_rows(); }
  // In tiles, of whole chunks.
  std::int64_t x_depth() const { return parts_of(chunk_rows() * grid_.pitch(), Tile::terms); }
  std::int64_t dy_depth() const {
    return parts_of(x_depth() * Tile::terms + grid_.most() - grid_.least() + inputs_.overlap(), Tile::terms);
  }

  /// Rows of the grid that these lie in.
  std::int64_t dy_rows() const {
    return parts_of(first_place() + 1 + dy_depth() * Tile::terms, grid_.pitch());
  }
  /// Of packed dy in its first row: there the greatest distance leads from the chunk's first.
  std::int64_t first_place() const { return grid_.rows_before() * grid_.pitch() - grid_.most(); }

  // The workspace: rows of the grid, tiles of x, of dy twice, and sums.
  std::int64_t rows_bytes() const {
    const std::int64_t x = (chunk_rows() + inputs_.overlap()) * inputs_.channels();
    const std::int64_t dy = dy_rows() * outputs_;
    return static_cast<std::int64_t>(
        whole_lines(static_cast<std::size_t>(grid_.pitch() * std::max(x, dy)) * sizeof(BFloat16)));
  }
  std::int64_t x_bytes() const { return input_pairs() * 2 * x_depth() * Tile::bytes; }
  std::int64_t dy_bytes() const { return output_pairs() * 2 * dy_depth() * Tile::bytes; }
  /// Of two rows of tiles.
  std::int64_t sums() const { return output_pairs() * square; }
  /// With several chunks all sums are kept from one to the next.
  std::int64_t sums_bytes() const {
    std::int64_t count = threads_;
    if (has_chunks()) {
      count = 0;
      for (const Plane& plane : inputs_.planes()) {
        count += input_pairs() * static_cast<std::int64_t>(plane.taps.size());
      }
    }
    return count * sums() * static_cast<std::int64_t>(sizeof(float));
  }
  std::byte* x_tiles(const Arguments& a) const { return a.workspace + rows_bytes(); }
  std::byte* dy_tiles(const Arguments& a, std::int64_t odd) const {
    return x_tiles(a) + x_bytes() + odd * dy_bytes();
  }
  float* sums(const Arguments& a, std::int64_t kept) const {
    return reinterpret_cast<float*>(dy_tiles(a, 2)) + (has_chunks() ? kept : omp_get_thread_num()) * sums();
  }

  void pack_x(const Arguments& a, const Chunk& chunk, const Plane& plane) const {
    auto* const rows = reinterpret_cast<BFloat16*>(a.workspace);
    const std::int64_t channels = inputs_.channels();
    const std::int64_t copied = chunk.rows + inputs_.overlap();
    parallel_ranges(copied, copied * grid_.pitch() * channels, 1, [&](std::int64_t begin, std::int64_t end) {
      inputs_.copy(grid_, plane, a.x, chunk.first + begin, chunk.first + end,
                   rows + begin * grid_.pitch() * channels);
    });
    const std::int64_t places = chunk.rows * grid_.pitch();
    for_terms(parts_of(places, Tile::terms), inputs_.columns(), [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * Tile::terms;
      const TileTranspose part{std::min(end * Tile::terms, places) - first, inputs_.columns(), channels,
                               x_depth() * Tile::bytes};
      simd::best<TileTranspose>()(part, rows + first * channels, x_tiles(a) + begin * Tile::bytes);
    });
  }

  void pack_dy(const Arguments& a, const Chunk& chunk) const {
    auto* const rows = reinterpret_cast<BFloat16*>(a.workspace);
    const std::int64_t first = chunk.first - grid_.rows_before();
    const std::int64_t row = grid_.pitch() * outputs_;
    parallel_ranges(dy_rows(), dy_rows() * row, 1, [&](std::int64_t begin, std::int64_t end) {
      grid_.copy({a.dy, grid_.rows.out, grid_.columns.out, outputs_}, first + begin, first + end,
                 rows + begin * row);
    });
    for (std::int64_t odd = 0; odd < 2; ++odd) {
      if (!(odd == 0 ? even_ : odd_)) continue;
      for_terms(dy_depth(), outputs_, [&](std::int64_t begin, std::int64_t end) {
        const TilePairs part{(end - begin) * Tile::terms, outputs_, outputs_, dy_depth() * Tile::bytes};
        simd::best<TilePairs>()(part, rows + (first_place() + odd + begin * Tile::terms) * outputs_,
                                dy_tiles(a, odd) + begin * Tile::bytes, nullptr);
      });
    }
  }

  /// `pack(first tile, past the last)`, on the team.
  template <class Pack>
  static void for_terms(std::int64_t depth, std::int64_t channels, const Pack& pack) {
    parallel_ranges(depth, depth * Tile::terms * channels, 1, pack);
  }

  /// Places from packed dy's first to the one that the chunk's first meets.
  std::int64_t from(const Tap& tap) const { return grid_.most() - tap.distance; }

  void add_up(const Arguments& a, const Chunk& chunk, const Tap& tap, const Squares& at) const {
    constexpr std::int64_t word_row = Tile::pair * sizeof(BFloat16);
    float* const to = sums(a, at.kept) + at.first * square;
    const TileProduct product{.rows = 1,
                              .columns = std::min(outputs_at_once, output_pairs() - at.first),
                              .depth = parts_of(chunk.rows * grid_.pitch(), Tile::terms),
                              .a_next = x_depth() * Tile::bytes,
                              .b_next = dy_depth() * Tile::bytes,
                              .c_row = Tile::pair,
                              .c_right = square,
                              .c_below = 0,
                              .accumulates = chunk.first > first_row()};
    simd::best<TileProduct>()(
        product, x_tiles(a) + at.pair * 2 * product.a_next,
        dy_tiles(a, from(tap) % 2) + at.first * 2 * product.b_next + from(tap) / 2 * word_row, to);
    if (chunk.first + chunk.rows == grid_.all_rows()) {
      const std::int64_t last = std::min((at.first + outputs_at_once) * Tile::pair, outputs_);
      inputs_.write(grid_, tap, at.pair, at.first * Tile::pair, last, to, a.dw);
    }
  }

  ConvGrid grid_;
  Inputs inputs_;
  std::int64_t outputs_;
  bool even_ = false, odd_ = false;  ///< distances that there are
  std::int64_t threads_ = omp_get_max_threads();
};

template <class Inputs>
KernelPtr kernel_of(const WeightGradient<Inputs>& gradient, const KernelIo& io) {
  using Op = Conv2dBackwardWeights;
  const auto run = [gradient](const Addresses& a) {
    gradient.run({a.in<BFloat16>(Op::x), a.in<BFloat16>(Op::dy), a.out(Op::dw), a.workspace<std::byte>()});
  };
  return cpu_kernel(io, run, gradient.workspace_bytes());
}

}  // namespace

bool can_use_tiles(const Conv2dBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  if (!multiplies_by_tiles() || t.b != nullptr || op.geometry.groups != 1 || t.x.dtype != DType::bf16 ||
      t.w.dtype != DType::f32 || !are_channels_last(t.x) || !are_channels_last(t.y)) {
    return false;
  }
  const ConvGrid grid(op.geometry, t);
  return WideInputs::of(grid, t) || NarrowInputs::of(grid, t);
}

KernelPtr tile_kernel(const Conv2dBackwardWeights& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  const ConvGrid grid(op.geometry, t);
  if (auto wide = WideInputs::of(grid, t)) {
    return kernel_of(WeightGradient<WideInputs>(grid, *std::move(wide), t.y.shape[1]), io);
  }
  const ConvGrid even = grid.with_even_pitch();
  return kernel_of(WeightGradient<NarrowInputs>(even, *NarrowInputs::of(even, t), t.y.shape[1]), io);
}

}  // namespace lockstep::kernels
