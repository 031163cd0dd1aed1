#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/base/alignment.h"
#include "kernels/cpu/conv2d_grid.h"
#include "kernels/cpu/conv2d_tiles.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {
namespace {

using namespace conv2d_tiles;

/// Places of the grid whose gradients are computed at a time, about: dy of them and the weights of 32 inputs
/// stay in the second cache.
constexpr std::int64_t places_at_once = 1024;
/// Squares of places that a thread takes at a time.
constexpr std::int64_t strip = 8;

/// dx = the sum over the weights w of dy w, for each phase of x: dy lies in the grid, 32 outputs of a place
/// in a tile's row and one place behind another, so that a tile may begin at any place.
class DataGradient {
 public:
  DataGradient(const Conv2dBackwardData& op, const MatmulOperands& t)
      : grid_(op.geometry, t),
        inputs_(t.x.shape[1]),
        outputs_(t.y.shape[1]),
        filters_(*SquareFilters::of(t.w)),
        planes_(grid_.planes()) {
    for (const Plane& plane : planes_) {
      std::vector<std::int64_t> steps;
      for (std::int64_t part = 0; part < output_parts(); ++part) {
        for (const Tap& tap : plane.taps) steps.push_back(part * part_bytes() - tap.distance * row_bytes);
      }
      steps_.push_back(std::move(steps));
    }
  }

  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(weight_bytes() + rows_bytes() + output_parts() * part_bytes() +
                                    threads_ * sum_bytes());
  }

  struct Arguments {
    const BFloat16* dy;
    const BFloat16* w;
    BFloat16* dx;
    std::byte* workspace;
  };

  void run(const Arguments& a) const {
    pack_weights(a);
    for (std::int64_t first = 0; first < grid_.all_rows(); first += chunk_rows()) {
      const std::int64_t rows = std::min(chunk_rows(), grid_.all_rows() - first);
      pack_dy(a, first, rows);
      std::byte* weights = a.workspace;
      for (std::size_t i = 0; i < planes_.size(); ++i) {
        compute(a, first, rows, planes_[i], steps_[i], weights);
        weights += plane_bytes(planes_[i]);
      }
    }
  }

 private:
  static constexpr std::int64_t row_bytes = Tile::terms * sizeof(BFloat16);

  std::int64_t input_pairs() const { return inputs_ / Tile::pair; }
  std::int64_t output_parts() const { return outputs_ / Tile::terms; }
  std::int64_t chunk_rows() const {
    return std::clamp<std::int64_t>(places_at_once / grid_.pitch(), 1, grid_.all_rows());
  }
  std::int64_t copied(std::int64_t rows) const { return grid_.rows_before() + rows + grid_.rows_behind(); }

  // The workspace: weights, phase by phase; rows of the grid; their tiles, part by part; sums of each thread.
  std::int64_t plane_bytes(const Plane& plane) const {
    return input_pairs() * 2 * output_parts() * static_cast<std::int64_t>(plane.taps.size()) * Tile::bytes;
  }
  std::int64_t weight_bytes() const {
    return inputs_ * outputs_ * grid_.rows.weights * grid_.columns.weights *
           static_cast<std::int64_t>(sizeof(BFloat16));
  }
  std::int64_t rows_bytes() const {
    return copied(chunk_rows()) * grid_.pitch() * outputs_ * static_cast<std::int64_t>(sizeof(BFloat16));
  }
  /// The last square of a chunk may reach behind it.
  std::int64_t part_bytes() const {
    const std::int64_t places = parts_of(copied(chunk_rows()) * grid_.pitch(), Tile::pair) + 1;
    return places * Tile::pair * row_bytes;
  }
  std::int64_t sum_bytes() const { return strip * square * static_cast<std::int64_t>(sizeof(float)); }

  std::byte* rows(const Arguments& a) const { return a.workspace + weight_bytes(); }
  std::byte* dy_tiles(const Arguments& a) const { return rows(a) + rows_bytes(); }
  float* own_sums(const Arguments& a) const {
    return reinterpret_cast<float*>(dy_tiles(a) + output_parts() * part_bytes() +
                                    omp_get_thread_num() * sum_bytes());
  }

  /// Of each phase, of each 32 inputs: outputs and, of 32 of these, weights in the order of the steps.
  void pack_weights(const Arguments& a) const {
    std::byte* to = a.workspace;
    for (const Plane& plane : planes_) {
      const auto taps = static_cast<std::int64_t>(plane.taps.size());
      const std::int64_t next = output_parts() * taps * Tile::bytes;
      const TileWeights weights{Tile::terms, Tile::pair, filters_.panel, 0, 2 * filters_.panel, next};
      const std::int64_t count = input_pairs() * output_parts() * taps;
      parallel_ranges(count, count * square, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t pair = i / (output_parts() * taps);
          const std::int64_t step = i % (output_parts() * taps);
          const Tap& tap = plane.taps[static_cast<std::size_t>(step % taps)];
          simd::best<TileWeights>()(weights,
                                    a.w + filters_.offset(step / taps * Tile::terms, pair * Tile::pair, tap),
                                    to + 2 * pair * next + step * Tile::bytes);
        }
      });
      to += plane_bytes(plane);
    }
  }

  void pack_dy(const Arguments& a, std::int64_t first, std::int64_t chunk) const {
    auto* const copy = reinterpret_cast<BFloat16*>(rows(a));
    const std::int64_t row = grid_.pitch() * outputs_;
    parallel_ranges(copied(chunk), copied(chunk) * row, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t from = first - grid_.rows_before();
      grid_.copy({a.dy, grid_.rows.out, grid_.columns.out, outputs_}, from + begin, from + end,
                 copy + begin * row);
    });
    const TileRows places{copied(chunk) * grid_.pitch(), Tile::terms, outputs_, Tile::bytes};
    parallel_ranges(output_parts(), copied(chunk) * row, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) {
        simd::best<TileRows>()(places, copy + part * Tile::terms, dy_tiles(a) + part * part_bytes());
      }
    });
  }

  /// Of a chunk of a phase: strips of places for each 32 inputs.
  void compute(const Arguments& a, std::int64_t first, std::int64_t chunk, const Plane& plane,
               const std::vector<std::int64_t>& steps, const std::byte* weights) const {
    const std::int64_t squares = parts_of(chunk * grid_.pitch(), Tile::pair);
    const std::int64_t strips = parts_of(squares, strip);
    const auto depth = static_cast<std::int64_t>(steps.size());
    const std::int64_t work = strips * input_pairs() * strip * square * (depth + 1);
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
        const std::int64_t place = grid_.rows_before() * grid_.pitch() + from * Tile::pair;
        simd::best<TileProduct>()(product, dy_tiles(a) + place * row_bytes,
                                  weights + 2 * pair * product.b_next, sums);
        const std::int64_t begin_place = first * grid_.pitch() + from * Tile::pair;
        const std::int64_t end_place =
            std::min(begin_place + product.rows * Tile::pair, (first + chunk) * grid_.pitch());
        write(begin_place, end_place, plane, sums, a.dx + pair * Tile::pair);
      }
    });
  }

  /// Places of the grid to the pixels of the phase, row by row.
  void write(std::int64_t begin, std::int64_t end, const Plane& plane, const float* sums,
             BFloat16* dx) const {
    const std::int64_t pixels = grid_.columns.extent(plane.column);
    for (std::int64_t place = begin; place < end;) {
      const std::int64_t grid_row = place / grid_.pitch();
      const std::int64_t column = place % grid_.pitch();
      const std::int64_t until = std::min(end, (grid_row + 1) * grid_.pitch());
      const std::int64_t row = grid_row % grid_.rows.grid() * grid_.rows.stride + plane.row;
      const std::int64_t count = std::min(until - place, pixels - column);
      if (count > 0 && row < grid_.rows.in) {
        const std::int64_t line = grid_row / grid_.rows.grid() * grid_.rows.in + row;
        const std::int64_t pixel = line * grid_.columns.in + column * grid_.columns.stride + plane.column;
        const TileResult result{.rows = count,
                                .columns = Tile::pair,
                                .from_row = Tile::pair,
                                .to_row = grid_.columns.stride * inputs_,
                                .as = TileResult::As::bf16};
        simd::best<TileResult>()(result, sums + (place - begin) * Tile::pair, dx + pixel * inputs_);
      }
      place = until;
    }
  }

  ConvGrid grid_;
  std::int64_t inputs_, outputs_;
  SquareFilters filters_;
  std::vector<Plane> planes_;
  std::vector<std::vector<std::int64_t>> steps_;  ///< of each phase: bytes from a place to what it sums
  std::int64_t threads_ = omp_get_max_threads();
};

}  // namespace

bool takes_tiles(const Conv2dBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  // The library's tiles are parts of a picture's row, and it has none for strides.
  const bool is_strided = op.geometry.stride[0] > 1 || op.geometry.stride[1] > 1;
  return (is_strided || t.x.shape[3] <= Tile::rows / 2) && has_tiles(op, io);
}

bool has_tiles(const Conv2dBackwardData& op, const KernelIo& io) {
  const MatmulOperands t = matmul_operands(op, io);
  return simd::instruction_sets().back() == "avx512_amx" && onednn::has_tiles() && op.geometry.groups == 1 &&
         t.x.dtype == DType::bf16 && t.w.dtype == DType::bf16 && t.y.dtype == DType::bf16 &&
         are_channels_last(t.x) && are_channels_last(t.y) && SquareFilters::of(t.w);
}

KernelPtr tile_kernel(const Conv2dBackwardData& op, const KernelIo& io) {
  using Op = Conv2dBackwardData;
  const DataGradient gradient(op, matmul_operands(op, io));
  const auto run = [gradient](const Addresses& a) {
    gradient.run(
        {a.in<BFloat16>(Op::dy), a.in<BFloat16>(Op::w), a.out<BFloat16>(Op::dx), a.workspace<std::byte>()});
  };
  return simd_kernel(io, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
