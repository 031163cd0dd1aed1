#include "kernels/cpu/linear_tiles.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/linear_tile_parts.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/tiles.h"

namespace lockstep::kernels {
namespace {

using namespace linear_tiles;

/// Multiply-adds below which the library's way is as good; of data with row-major weights, too, as of
/// weights, since it has only a slow way for these.
constexpr std::int64_t least_product = 1 << 19;
constexpr std::int64_t least_product_for_data = 1 << 28;

/// Squares of data gradients that a thread takes at a time.
constexpr std::int64_t strip_squares = 16;

bool are_tiles(const MatmulOperands& t) {
  return multiplies_by_tiles() && t.w.shape.rank() == 2 && t.x.dtype == DType::bf16 &&
         t.y.dtype == DType::bf16 && t.x.is_row_major() && t.y.is_row_major();
}

std::int64_t products(const MatmulOperands& t) {
  const auto [rows, inputs, outputs] = matmul_size(t.x.shape, t.w.shape);
  return rows * inputs * outputs;
}

/// dx = dy w: of a block of inputs w is packed, and then taken with one strip of dy after another.
struct DataGradient {
  MatmulSize size;
  WeightLayout layout;
  std::int64_t threads = omp_get_max_threads();

  std::int64_t depth() const { return parts_of(size.outputs, Tile::terms); }
  std::int64_t block() const { return block_pairs(size.inputs, depth()); }
  std::int64_t packed() const { return block() * 2 * depth() * Tile::bytes; }
  std::int64_t chunk() const { return chunk_of(depth()); }
  /// Pairs of rows of tiles that a thread takes at a time: a call for few squares takes longer than they do.
  std::int64_t strip() const {
    const std::int64_t most = std::max<std::int64_t>(1, strip_squares / block());
    return std::min(most, parts_of(parts_of(size.rows, Tile::pair), threads));
  }
  /// Of a thread: a chunk of a strip of dy, and sums.
  std::int64_t tiles() const { return strip() * 2 * chunk() * Tile::bytes; }
  std::int64_t room() const {
    return tiles() + strip() * block() * square * static_cast<std::int64_t>(sizeof(float));
  }
  std::size_t workspace_bytes() const { return static_cast<std::size_t>(packed() + threads * room()); }

  struct Arguments {
    const BFloat16* dy;
    const BFloat16* w;
    BFloat16* dx;
    std::byte* packed;
  };

  /// Tiles in which panels begin and end.
  std::int64_t whole_panels() const {
    return layout.panel == 0 ? 1 : std::lcm(layout.panel, Tile::terms) / Tile::terms;
  }

  /// Inputs from pair `first` on, outputs of the tiles [begin, end).
  void pack(const Arguments& a, std::int64_t first, std::int64_t begin, std::int64_t end) const {
    const std::int64_t input = first * Tile::pair;
    const std::int64_t output = begin * Tile::terms;
    const std::int64_t outputs = std::min(end * Tile::terms, size.outputs) - output;
    const std::int64_t columns = std::min(block() * Tile::pair, size.inputs - input);
    const std::int64_t next = depth() * Tile::bytes;
    std::byte* const to = a.packed + begin * Tile::bytes;
    if (layout.panel == 0) {
      const TilePairs pairs{outputs, columns, size.inputs, next};
      return simd::best<TilePairs>()(pairs, a.w + output * size.inputs + input, to, nullptr);
    }
    const TileWeights weights{outputs, columns, layout.panel, layout.from_panel(), 2 * layout.panel, next};
    const std::int64_t at = output / layout.panel * layout.from_panel() + input * layout.panel;
    simd::best<TileWeights>()(weights, a.w + at, to);
  }

  /// A strip of `pairs` from pair `at` of rows of tiles on.
  void add_up(const Arguments& a, std::int64_t first, std::int64_t count, std::int64_t at,
              std::int64_t pairs) const {
    std::byte* const dy_tiles = a.packed + packed() + omp_get_thread_num() * room();
    auto* const sums = reinterpret_cast<float*>(dy_tiles + tiles());
    const std::int64_t row = at * Tile::pair;
    const std::int64_t rows = std::min(pairs * Tile::pair, size.rows - row);
    TileProduct product{.rows = pairs,
                        .columns = count,
                        .depth = chunk(),
                        .a_next = chunk() * Tile::bytes,
                        .b_next = depth() * Tile::bytes,
                        .c_row = Tile::pair,
                        .c_right = square,
                        .c_below = count * square};
    for (std::int64_t k = 0; k < depth(); k += chunk()) {
      const std::int64_t term = k * Tile::terms;
      product.depth = std::min(chunk(), depth() - k);
      product.accumulates = k > 0;
      const TileRows dy_rows{rows, std::min(chunk() * Tile::terms, size.outputs - term), size.outputs,
                             product.a_next};
      simd::best<TileRows>()(dy_rows, a.dy + row * size.outputs + term, dy_tiles);
      simd::best<TileProduct>()(product, dy_tiles, a.packed + k * Tile::bytes, sums);
    }
    for (std::int64_t i = 0; i < pairs * count; ++i) {
      const std::int64_t input = (first + i % count) * Tile::pair;
      const std::int64_t below = i / count * Tile::pair;
      const TileResult result{.rows = std::min(Tile::pair, rows - below),
                              .columns = std::min(Tile::pair, size.inputs - input),
                              .from_row = Tile::pair,
                              .to_row = size.inputs,
                              .as = TileResult::As::bf16};
      simd::best<TileResult>()(result, sums + i * square, a.dx + (row + below) * size.inputs + input);
    }
  }

  void run(const Arguments& a) const {
    const std::int64_t pairs = parts_of(size.inputs, Tile::pair);
    for (std::int64_t first = 0; first < pairs; first += block()) {
      const std::int64_t count = std::min(block(), pairs - first);
      const std::int64_t work = size.rows * count * Tile::pair * size.outputs / 8;
      parallel_ranges(depth(), work, whole_panels(),
                      [&](std::int64_t begin, std::int64_t end) { pack(a, first, begin, end); });
      parallel_ranges(parts_of(size.rows, Tile::pair), work, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; at += strip()) {
          add_up(a, first, count, at, std::min(strip(), end - at));
        }
      });
    }
  }
};

}  // namespace

bool can_use_tiles(const LinearBackwardData& op, const KernelIo& matrices) {
  const MatmulOperands t = matmul_operands(op, matrices);
  const auto layout = weight_layout(t.w);
  // In panels two inputs lie side by side: what of them does not is f32's.
  return are_tiles(t) && t.w.dtype == DType::bf16 && layout && (layout->panel == 0 || layout->pairs);
}

bool takes_tiles(const LinearBackwardData& op, const KernelIo& matrices) {
  const MatmulOperands t = matmul_operands(op, matrices);
  return can_use_tiles(op, matrices) &&
         products(t) >= (weight_layout(t.w)->panel == 0 ? least_product : least_product_for_data);
}

bool takes_tiles(const LinearBackwardWeights& op, const KernelIo& matrices) {
  const MatmulOperands t = matmul_operands(op, matrices);
  const auto is_f32 = [](const TensorDesc& desc) { return desc.dtype == DType::f32; };
  return are_tiles(t) && std::ranges::all_of(matrices.outputs, is_f32) && weight_layout(t.w).has_value() &&
         products(t) >= least_product;
}

KernelPtr tile_kernel(const LinearBackwardData& op, const KernelIo& matrices) {
  using Op = LinearBackwardData;
  const MatmulOperands t = matmul_operands(op, matrices);
  const DataGradient gradient{matmul_size(t.x.shape, t.w.shape), weight_layout(t.w).value()};
  const auto run = [gradient](const Addresses& a) {
    gradient.run(
        {a.in<BFloat16>(Op::dy), a.in<BFloat16>(Op::w), a.out<BFloat16>(Op::dx), a.workspace<std::byte>()});
  };
  return cpu_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
