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

/// y = the sum over the weights w of x w, in which x lies in a grid for each of its phases. The squares of
/// filters are right factors as they lie.
class Forward {
 public:
  Forward(const Conv2d& op, const MatmulOperands& t)
      : grid_(op.geometry, t),
        outputs_(t.y.shape[1]),
        filters_(*SquareFilters::of(t.w)),
        planes_(grid_.planes()),
        x_(grid_, t.x.shape[1], parts_of(-grid_.least(), grid_.pitch()),
           parts_of(grid_.most(), grid_.pitch())) {
    std::erase_if(planes_, [](const Plane& plane) { return plane.taps.empty(); });
    for (std::size_t plane = 0; plane < planes_.size(); ++plane) {
      for (std::int64_t part = 0; part < x_.parts(); ++part) {
        for (const Tap& tap : planes_[plane].taps) {
          const std::int64_t tiles = static_cast<std::int64_t>(plane) * x_.bytes() + part * x_.part_bytes();
          x_steps_.push_back(tiles + tap.distance * Tile::row_bytes);
          w_steps_.push_back(filters_.offset(0, part * Tile::pair, tap) * element);
        }
      }
    }
  }

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(x_.copy_bytes() + planes() * x_.bytes() + threads_ * sum_bytes);
  }

  struct Arguments {
    const BFloat16* x;
    const BFloat16* w;
    BFloat16* y;
    std::byte* workspace;
  };

  void run(const Arguments& a) const {
    const std::int64_t rows = chunk_rows(grid_);
    for (Chunk chunk{0, rows}; chunk.first < grid_.all_rows(); chunk.first += rows) {
      chunk.rows = std::min(rows, grid_.all_rows() - chunk.first);
      std::byte* tiles = x_tiles(a);
      for (const Plane& plane : planes_) {
        x_.pack({a.x, grid_.rows.in, grid_.columns.in, x_.parts() * Tile::terms, grid_.rows.stride,
                 grid_.columns.stride, plane.row, plane.column},
                chunk, a.workspace, tiles);
        tiles += x_.bytes();
      }
      compute(a, chunk);
    }
  }

 private:
  static constexpr std::int64_t element = sizeof(BFloat16);
  static constexpr std::int64_t sum_bytes = strip * square * static_cast<std::int64_t>(sizeof(float));

  std::int64_t planes() const { return std::ssize(planes_); }

  // The workspace: rows of a phase of x, tiles of all phases, and sums of each thread.
  std::byte* x_tiles(const Arguments& a) const { return a.workspace + x_.copy_bytes(); }
  float* own_sums(const Arguments& a) const {
    return reinterpret_cast<float*>(x_tiles(a) + planes() * x_.bytes() + omp_get_thread_num() * sum_bytes);
  }

  /// Strips of places for each 32 outputs.
  void compute(const Arguments& a, const Chunk& chunk) const {
    const std::int64_t squares = parts_of(chunk.rows * grid_.pitch(), Tile::pair);
    const std::int64_t strips = parts_of(squares, strip);
    const std::int64_t tasks = strips * (outputs_ / Tile::pair);
    const auto depth = static_cast<std::int64_t>(x_steps_.size());
    const PixelWriter pixels{.grid_rows = grid_.rows.grid(),
                             .pitch = grid_.pitch(),
                             .height = grid_.rows.out,
                             .width = grid_.columns.out,
                             .channels = outputs_};
    parallel_ranges(tasks, tasks * strip * square * depth, 1, [&](std::int64_t begin, std::int64_t end) {
      float* const sums = own_sums(a);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t output = i / strips * Tile::pair;
        const std::int64_t from = i % strips * strip;
        const TileProduct product{.rows = std::min(strip, squares - from),
                                  .columns = 1,
                                  .depth = depth,
                                  .a_next = Tile::bytes,
                                  .b_next = Tile::row_bytes,
                                  .c_row = Tile::pair,
                                  .c_right = 0,
                                  .c_below = square,
                                  .accumulates = false,
                                  .a_steps = x_steps_.data(),
                                  .b_steps = w_steps_.data(),
                                  .b_row = 2 * filters_.panel * element};
        simd::best<TileProduct>()(product,
                                  x_tiles(a) + x_.first_place_bytes() + from * Tile::pair * Tile::row_bytes,
                                  a.w + filters_.offset(output, 0, {}), sums);
        const std::int64_t place = chunk.first * grid_.pitch() + from * Tile::pair;
        const std::int64_t until =
            std::min(place + product.rows * Tile::pair, (chunk.first + chunk.rows) * grid_.pitch());
        pixels.write(place, until, sums, a.y + output);
      }
    });
  }

  ConvGrid grid_;
  std::int64_t outputs_;
  SquareFilters filters_;
  std::vector<Plane> planes_;
  PackedPlaces x_;
  std::vector<std::int64_t> x_steps_, w_steps_;  ///< bytes from a place, and from an output, to what it sums
  std::int64_t threads_ = omp_get_max_threads();
};

}  // namespace

bool takes_tiles(const Conv2d& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  // The library's tiles are parts of a picture's row. It packs nothing, which takes as long as a product by
  // some hundreds of weights.
  constexpr std::int64_t least_weights = 1024;
  return t.y.shape[3] <= Tile::rows / 2 && t.w.shape.elements() / t.w.shape[1] >= least_weights &&
         can_use_tiles(op, io);
}

bool can_use_tiles(const Conv2d& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  return t.b == nullptr && op.activation == Activation::none && are_places(op.geometry, t);
}

KernelPtr tile_kernel(const Conv2d& op, const KernelIo& io) {
  const Forward forward(op, matmul_operands(op, io));
  const auto run = [forward](const Addresses& a) {
    forward.run({a.in<BFloat16>(Conv2d::x), a.in<BFloat16>(Conv2d::w), a.out<BFloat16>(Conv2d::y),
                 a.workspace<std::byte>()});
  };
  return cpu_kernel(io, run, forward.workspace_bytes());
}

}  // namespace lockstep::kernels
