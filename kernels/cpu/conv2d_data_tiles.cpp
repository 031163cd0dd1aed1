#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/conv2d_places.h"
#include "kernels/cpu/conv2d_tiles.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {
namespace {

using namespace conv2d_tiles;

/// dx = the sum over the weights w of dy w, for each phase of x.
class DataGradient {
 public:
  DataGradient(const Conv2dBackwardData& op, const MatmulOperands& t)
      : grid_(op.geometry, t),
        inputs_(t.x.shape[1]),
        filters_(*SquareFilters::of(t.w)),
        planes_(grid_.planes()),
        dy_(grid_, t.y.shape[1], grid_.rows_before(), grid_.rows_behind()) {
    for (const Plane& plane : planes_) {
      std::vector<std::int64_t> steps;
      for (std::int64_t part = 0; part < dy_.parts(); ++part) {
        for (const Tap& tap : plane.taps)
          steps.push_back(part * dy_.part_bytes() - tap.distance * Tile::row_bytes);
      }
      steps_.push_back(std::move(steps));
    }
  }

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(weight_bytes() + dy_.copy_bytes() + dy_.bytes() + threads_ * sum_bytes);
  }

  struct Arguments {
    const BFloat16* dy;
    const BFloat16* w;
    BFloat16* dx;
    std::byte* workspace;
  };

  void run(const Arguments& a) const {
    pack_weights(a);
    const std::int64_t rows = chunk_rows(grid_);
    for (Chunk chunk{0, rows}; chunk.first < grid_.all_rows(); chunk.first += rows) {
      chunk.rows = std::min(rows, grid_.all_rows() - chunk.first);
      dy_.pack({a.dy, grid_.rows.out, grid_.columns.out, dy_.parts() * Tile::terms}, chunk, copy(a),
               dy_tiles(a));
      std::byte* weights = a.workspace;
      for (std::size_t i = 0; i < planes_.size(); ++i) {
        compute(a, chunk, planes_[i], steps_[i], weights);
        weights += plane_bytes(planes_[i]);
      }
    }
  }

 private:
  static constexpr std::int64_t sum_bytes = strip * square * static_cast<std::int64_t>(sizeof(float));

  std::int64_t input_pairs() const { return inputs_ / Tile::pair; }

  // The workspace: weights, phase by phase; rows of dy and their tiles; sums of each thread.
  std::int64_t plane_bytes(const Plane& plane) const {
    return input_pairs() * 2 * dy_.parts() * static_cast<std::int64_t>(plane.taps.size()) * Tile::bytes;
  }
  std::int64_t weight_bytes() const {
    return inputs_ * dy_.parts() * Tile::row_bytes * grid_.rows.weights * grid_.columns.weights;
  }
  std::byte* copy(const Arguments& a) const { return a.workspace + weight_bytes(); }
  std::byte* dy_tiles(const Arguments& a) const { return copy(a) + dy_.copy_bytes(); }
  float* own_sums(const Arguments& a) const {
    return reinterpret_cast<float*>(dy_tiles(a) + dy_.bytes() + omp_get_thread_num() * sum_bytes);
  }

  /// Of each phase, of each 32 inputs: outputs and, of 32 of these, weights in the order of the steps.
  void pack_weights(const Arguments& a) const {
    std::byte* to = a.workspace;
    for (const Plane& plane : planes_) {
      const auto taps = static_cast<std::int64_t>(plane.taps.size());
      const std::int64_t next = dy_.parts() * taps * Tile::bytes;
      const TileWeights weights{Tile::terms, Tile::pair, filters_.panel, 0, 2 * filters_.panel, next};
      const std::int64_t count = input_pairs() * dy_.parts() * taps;
      parallel_ranges(count, count * square, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t pair = i / (dy_.parts() * taps);
          const std::int64_t step = i % (dy_.parts() * taps);
          const Tap& tap = plane.taps[static_cast<std::size_t>(step % taps)];
          simd::best<TileWeights>()(weights,
                                    a.w + filters_.offset(step / taps * Tile::terms, pair * Tile::pair, tap),
                                    to + 2 * pair * next + step * Tile::bytes);
        }
      });
      to += plane_bytes(plane);
    }
  }

  /// Of a chunk of a phase: strips of places for each 32 inputs.
  void compute(const Arguments& a, const Chunk& chunk, const Plane& plane,
               const std::vector<std::int64_t>& steps, const std::byte* weights) const {
    const std::int64_t squares = parts_of(chunk.rows * grid_.pitch(), Tile::pair);
    const std::int64_t strips = parts_of(squares, strip);
    const auto depth = static_cast<std::int64_t>(steps.size());
    const std::int64_t work = strips * input_pairs() * strip * square * (depth + 1);
    const PixelWriter pixels{.grid_rows = grid_.rows.grid(),
                             .pitch = grid_.pitch(),
                             .height = grid_.rows.in,
                             .width = grid_.columns.in,
                             .channels = inputs_,
                             .row_stride = grid_.rows.stride,
                             .column_stride = grid_.columns.stride,
                             .first_row = plane.row,
                             .first_column = plane.column};
    parallel_ranges(strips * input_pairs(), work, 1, [&](std::int64_t begin, std::int64_t end) {
      float* const sums = own_sums(a);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t pair = i / strips;
        const std::int64_t from = i % strips * strip;
        const TileProduct product{.rows = std::min(strip, squares - from),
                                  .columns = 1,
                                  .depth = depth,
                                  .a_next = Tile::bytes,
                                  .b_next = depth * Tile::bytes,
                                  .c_row = Tile::pair,
                                  .c_right = 0,
                                  .c_below = square,
                                  .accumulates = false,
                                  .a_steps = steps.data()};
        simd::best<TileProduct>()(product,
                                  dy_tiles(a) + dy_.first_place_bytes() + from * Tile::pair * Tile::row_bytes,
                                  weights + 2 * pair * product.b_next, sums);
        const std::int64_t place = chunk.first * grid_.pitch() + from * Tile::pair;
        const std::int64_t until =
            std::min(place + product.rows * Tile::pair, (chunk.first + chunk.rows) * grid_.pitch());
        pixels.write(place, until, sums, a.dx + pair * Tile::pair);
      }
    });
  }

  ConvGrid grid_;
  std::int64_t inputs_;
  SquareFilters filters_;
  std::vector<Plane> planes_;
  PackedPlaces dy_;
  std::vector<std::vector<std::int64_t>> steps_;  ///< of each phase: bytes from a place to what it sums
  std::int64_t threads_ = omp_get_max_threads();
};

}  // namespace

bool takes_tiles(const Conv2dBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  // The library's tiles are parts of a picture's row, and for strides it has none.
  const bool is_strided = op.geometry.stride[0] > 1 || op.geometry.stride[1] > 1;
  return (is_strided || t.x.shape[3] <= Tile::rows / 2) && can_use_tiles(op, io);
}

bool can_use_tiles(const Conv2dBackwardData& op, const KernelIo& io) {
  return are_places(op.geometry, matmul_operands(op, io));
}

KernelPtr tile_kernel(const Conv2dBackwardData& op, const KernelIo& io) {
  using Op = Conv2dBackwardData;
  const DataGradient gradient(op, matmul_operands(op, io));
  const auto run = [gradient](const Addresses& a) {
    gradient.run(
        {a.in<BFloat16>(Op::dy), a.in<BFloat16>(Op::w), a.out<BFloat16>(Op::dx), a.workspace<std::byte>()});
  };
  return cpu_kernel(io, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
