#include "kernels/cpu/linear_tiles.h"

#include <algorithm>
#include <cstddef>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/linear_weight_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"

namespace lockstep::kernels {
namespace {

using namespace linear_tiles;

/// dw^T = x^T dy: of a block of inputs x^T is packed, and then taken with one group of outputs after another.
struct WeightGradient {
  WeightSums to;
  MatmulSize size = to.size;
  std::int64_t threads = omp_get_max_threads();

  std::int64_t depth() const { return parts_of(size.rows, Tile::terms); }
  std::int64_t block() const { return block_pairs(size.inputs, depth()); }
  std::int64_t packed() const { return block() * 2 * depth() * Tile::bytes; }
  /// Outputs of a group: each thread shall have one.
  std::int64_t group() const {
    return std::min(most_outputs, parts_of(size.outputs, threads * Tile::pair) * Tile::pair);
  }
  /// Of a thread: a chunk of a group of dy, and sums.
  std::int64_t chunk() const { return chunk_of(depth()); }
  std::int64_t tiles() const { return group() / Tile::rows * chunk() * Tile::bytes; }
  std::int64_t room() const {
    return tiles() + block() * Tile::pair * group() * static_cast<std::int64_t>(sizeof(float));
  }
  std::size_t workspace_bytes() const { return static_cast<std::size_t>(packed() + threads * room()); }

  using Arguments = WeightGradientArguments;

  /// Inputs from pair `first` on, rows of the tiles [begin, end).
  void pack(const Arguments& a, std::int64_t first, std::int64_t begin, std::int64_t end) const {
    const std::int64_t input = first * Tile::pair;
    const std::int64_t row = begin * Tile::terms;
    const TileTranspose rows{std::min(end * Tile::terms, size.rows) - row,
                             std::min(block() * Tile::pair, size.inputs - input), size.inputs,
                             depth() * Tile::bytes};
    simd::best<TileTranspose>()(rows, a.x + row * size.inputs + input, a.workspace + begin * Tile::bytes);
  }

  /// Of the block that begins with pair `first`, pairs [begin, begin + count), with outputs of group `at`.
  void add_up(const Arguments& a, std::int64_t first, std::int64_t begin, std::int64_t count,
              std::int64_t at) const {
    std::byte* const dy_tiles = a.workspace + packed() + omp_get_thread_num() * room();
    auto* const sums = reinterpret_cast<float*>(dy_tiles + tiles());
    const std::int64_t output = at * group();
    const std::int64_t columns = std::min(group(), size.outputs - output);
    const bool adds_up = a.db != nullptr && first + begin == 0;
    float bias[most_outputs] = {};
    const std::int64_t squares = parts_of(columns, Tile::pair);
    TileProduct product{.rows = count,
                        .columns = squares,
                        .depth = chunk(),
                        .a_next = depth() * Tile::bytes,
                        .b_next = chunk() * Tile::bytes,
                        .c_row = Tile::pair,
                        .c_right = square,
                        .c_below = squares * square};
    for (std::int64_t k = 0; k < depth(); k += chunk()) {
      const std::int64_t row = k * Tile::terms;
      product.depth = std::min(chunk(), depth() - k);
      product.accumulates = k > 0;
      const TilePairs pairs{std::min(chunk() * Tile::terms, size.rows - row), columns, size.outputs,
                            product.b_next};
      simd::best<TilePairs>()(pairs, a.dy + row * size.outputs + output, dy_tiles, adds_up ? bias : nullptr);
      simd::best<TileProduct>()(product, a.workspace + (begin * 2 * depth() + k) * Tile::bytes, dy_tiles,
                                sums);
    }
    for (std::int64_t at_pair = 0; at_pair < count; ++at_pair) {
      for (std::int64_t column = 0; column < squares; ++column) {
        to.write(a.dw, (first + begin + at_pair) * Tile::pair, output + column * Tile::pair,
                 sums + (at_pair * squares + column) * square);
      }
      if (output + columns == size.outputs) to.clear_padding(a.dw, (first + begin + at_pair) * Tile::pair);
    }
    if (adds_up) std::copy_n(bias, columns, a.db + output);
  }

  void run(const Arguments& a) const {
    const std::int64_t pairs = parts_of(size.inputs, Tile::pair);
    for (std::int64_t first = 0; first < pairs; first += block()) {
      const std::int64_t count = std::min(block(), pairs - first);
      const std::int64_t work = size.rows * count * Tile::pair * size.outputs / 8;
      parallel_ranges(depth(), work, 1,
                      [&](std::int64_t begin, std::int64_t end) { pack(a, first, begin, end); });
      parallel_ranges(parts_of(size.outputs, group()) * count, work, 1,
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t at = begin; at < end;) {
                          const std::int64_t some = std::min(count - at % count, end - at);
                          add_up(a, first, at % count, some, at / count);
                          at += some;
                        }
                      });
    }
  }
};

}  // namespace

KernelPtr tile_kernel(const LinearBackwardWeights& op, const KernelIo& matrices) {
  using Op = LinearBackwardWeights;
  const MatmulOperands t = matmul_operands(op, matrices);
  const WeightSums to{matmul_size(t.x.shape, t.w.shape), weight_layout(t.w).value()};
  if (keeps_all_sums(to.size)) return all_sums_kernel(to, matrices);
  const WeightGradient gradient{to};
  const auto run = [gradient](const Addresses& a) {
    gradient.run({a.in<BFloat16>(Op::x), a.in<BFloat16>(Op::dy), a.out(Op::dw), a.out(Op::db),
                  a.workspace<std::byte>()});
  };
  return cpu_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels
