#include "kernels/cpu/linear_weight_sums.h"

#include <algorithm>
#include <cstddef>

#include "kernels/base/half.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"

namespace lockstep::kernels::linear_tiles {
namespace {

/// Bytes of packed x and dy at a time, about: with the sums they stay in the second cache.
constexpr std::int64_t bytes_at_once = 704 << 10;
/// Squares of outputs that all inputs meet before the next ones: what is packed of dy is read anew for each
/// pair of inputs.
constexpr std::int64_t outputs_at_once = 8;

class AllSums {
 public:
  explicit AllSums(const WeightSums& to) : to_(to), size_(to.size) {}

  std::size_t workspace_bytes() const {
    const std::int64_t sums = input_pairs() * output_pairs() * square;
    return static_cast<std::size_t>(x_bytes() + dy_bytes() + sums * static_cast<std::int64_t>(sizeof(float)));
  }

  void run(const WeightGradientArguments& a) const {
    if (a.db != nullptr) std::fill_n(a.db, size_.outputs, 0.0F);
    for (Chunk chunk{0, 0}; chunk.first < depth(); chunk.first += chunk.depth) {
      chunk.depth = std::min(chunk_depth(), depth() - chunk.first);
      const std::int64_t rows = chunk.depth * Tile::terms;
      parallel_ranges(chunk.depth, rows * size_.inputs, 1,
                      [&](std::int64_t begin, std::int64_t end) { pack_x(a, chunk, begin, end); });
      parallel_ranges(output_pairs(), rows * size_.outputs, 1,
                      [&](std::int64_t begin, std::int64_t end) { pack_dy(a, chunk, begin, end); });
      const std::int64_t parts = parts_of(output_pairs(), outputs_at_once);
      parallel_ranges(input_pairs() * parts, rows * size_.inputs * size_.outputs, 1,
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) {
                          add_up(a, chunk, i % input_pairs(), i / input_pairs() * outputs_at_once);
                        }
                      });
    }
  }

 private:
  /// Tiles of rows.
  struct Chunk {
    std::int64_t first, depth;
  };

  std::int64_t input_pairs() const { return parts_of(size_.inputs, Tile::pair); }
  std::int64_t output_pairs() const { return parts_of(size_.outputs, Tile::pair); }
  std::int64_t depth() const { return parts_of(size_.rows, Tile::terms); }
  std::int64_t chunk_depth() const {
    const std::int64_t numbers = (input_pairs() + output_pairs()) * Tile::pair;
    const std::int64_t most = std::max<std::int64_t>(1, bytes_at_once / (numbers * Tile::row_bytes));
    return parts_of(depth(), parts_of(depth(), most));
  }
  std::int64_t next() const { return chunk_depth() * Tile::bytes; }  ///< from one row or column of tiles

  // The workspace: tiles of x, of dy, and sums.
  std::int64_t x_bytes() const { return input_pairs() * 2 * next(); }
  std::int64_t dy_bytes() const { return output_pairs() * 2 * next(); }

  void pack_x(const WeightGradientArguments& a, const Chunk& chunk, std::int64_t begin,
              std::int64_t end) const {
    const std::int64_t row = (chunk.first + begin) * Tile::terms;
    const TileTranspose part{std::min((end - begin) * Tile::terms, size_.rows - row), size_.inputs,
                             size_.inputs, next()};
    simd::best<TileTranspose>()(part, a.x + row * size_.inputs, a.workspace + begin * Tile::bytes);
  }

  /// Pairs [begin, end) of outputs: each sum of the bias is of one thread.
  void pack_dy(const WeightGradientArguments& a, const Chunk& chunk, std::int64_t begin,
               std::int64_t end) const {
    const std::int64_t row = chunk.first * Tile::terms;
    const std::int64_t output = begin * Tile::pair;
    const TilePairs part{std::min(chunk.depth * Tile::terms, size_.rows - row),
                         std::min(end * Tile::pair, size_.outputs) - output, size_.outputs, next()};
    simd::best<TilePairs>()(part, a.dy + row * size_.outputs + output,
                            a.workspace + x_bytes() + begin * 2 * next(),
                            a.db == nullptr ? nullptr : a.db + output);
  }

  /// Of a pair of inputs, with some of the outputs.
  void add_up(const WeightGradientArguments& a, const Chunk& chunk, std::int64_t pair,
              std::int64_t first) const {
    auto* const sums = reinterpret_cast<float*>(a.workspace + x_bytes() + dy_bytes()) +
                       (pair * output_pairs() + first) * square;
    const TileProduct product{.rows = 1,
                              .columns = std::min(outputs_at_once, output_pairs() - first),
                              .depth = chunk.depth,
                              .a_next = next(),
                              .b_next = next(),
                              .c_row = Tile::pair,
                              .c_right = square,
                              .c_below = 0,
                              .accumulates = chunk.first > 0};
    simd::best<TileProduct>()(product, a.workspace + pair * 2 * next(),
                              a.workspace + x_bytes() + first * 2 * next(), sums);
    if (chunk.first + chunk.depth < depth()) return;
    for (std::int64_t column = 0; column < product.columns; ++column) {
      to_.write(a.dw, pair * Tile::pair, (first + column) * Tile::pair, sums + column * square);
    }
    if (first + product.columns == output_pairs()) to_.clear_padding(a.dw, pair * Tile::pair);
  }

  WeightSums to_;
  MatmulSize size_;
};

}  // namespace

KernelPtr all_sums_kernel(const WeightSums& to, const KernelIo& matrices) {
  using Op = LinearBackwardWeights;
  const AllSums gradient(to);
  const auto run = [gradient](const Addresses& a) {
    gradient.run({a.in<BFloat16>(Op::x), a.in<BFloat16>(Op::dy), a.out(Op::dw), a.out(Op::db),
                  a.workspace<std::byte>()});
  };
  return cpu_kernel(matrices, run, gradient.workspace_bytes());
}

}  // namespace lockstep::kernels::linear_tiles
