#include "kernels/cpu/classifier_tiles.h"

namespace lockstep::kernels {
namespace {

/// Bytes of a row, or a column, of tiles whose sums have so many terms.
constexpr std::int64_t bytes_of(std::int64_t terms) {
  return terms / Tile::terms * Tile::bytes;
}

/// Factors packed whole, c row-major.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const std::byte* a,
              std::int64_t a_next, const std::byte* b, std::int64_t b_next, float* c, std::int64_t c_row,
              bool accumulates) {
  const TileProduct product{.rows = rows,
                            .columns = columns / Tile::pair,
                            .depth = terms / Tile::terms,
                            .a_next = a_next,
                            .b_next = b_next,
                            .c_row = c_row,
                            .c_right = Tile::pair,
                            .c_below = Tile::pair * c_row,
                            .accumulates = accumulates};
  simd::best<TileProduct>()(product, a, b, c);
}

}  // namespace

std::size_t ClassifierTiles::workspace_bytes() const {
  return static_cast<std::size_t>(2 * x_bytes() + 2 * size_.block * size_.inputs + threads_ * strip_bytes());
}

std::byte* ClassifierTiles::own_strip(std::byte* workspace) const {
  return weights(workspace) + 2 * size_.block * size_.inputs + omp_get_thread_num() * strip_bytes();
}

void ClassifierTiles::pack(const BFloat16* x, std::int64_t rows, bool for_gradient,
                           std::byte* workspace) const {
  const std::int64_t inputs = size_.inputs;
  const std::int64_t next = bytes_of(inputs);
  parallel_ranges(rows / Tile::pair, rows * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    simd::best<TileRows>()({(end - begin) * Tile::pair, inputs, inputs, next},
                           x + begin * Tile::pair * inputs, workspace + 2 * begin * next);
  });
  if (!for_gradient) return;
  std::byte* const pairs = workspace + x_bytes();
  parallel_ranges(rows / Tile::terms, rows * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    simd::best<TilePairs>()({(end - begin) * Tile::terms, inputs, inputs, bytes_of(rows)},
                            x + begin * Tile::terms * inputs, pairs + begin * Tile::bytes, nullptr);
  });
}

void ClassifierTiles::pack_columns(const BFloat16* w, std::int64_t columns, std::byte* tiles) const {
  const std::int64_t inputs = size_.inputs;
  const std::int64_t next = bytes_of(inputs);
  parallel_ranges(columns / Tile::pair, columns * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    simd::best<TileColumns>()({(end - begin) * Tile::pair, inputs, inputs, next},
                              w + begin * Tile::pair * inputs, tiles + 2 * begin * next);
  });
}

void ClassifierTiles::pack_pairs(const BFloat16* w, std::int64_t columns, std::byte* tiles) const {
  const std::int64_t inputs = size_.inputs;
  parallel_ranges(columns / Tile::terms, columns * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    simd::best<TilePairs>()({(end - begin) * Tile::terms, inputs, inputs, bytes_of(columns)},
                            w + begin * Tile::terms * inputs, tiles + begin * Tile::bytes, nullptr);
  });
}

void ClassifierTiles::multiply_logits(std::int64_t row, std::int64_t squares, std::int64_t columns,
                                      float* logits, std::byte* workspace) const {
  const std::int64_t next = bytes_of(size_.inputs);
  multiply(squares, columns, size_.inputs, workspace + row / Tile::rows * next, next, weights(workspace),
           next, logits + row * columns, columns, false);
}

void ClassifierTiles::multiply_dx(const BFloat16* gradient, std::int64_t row, std::int64_t squares,
                                  std::int64_t columns, float* dx, bool accumulates,
                                  std::byte* workspace) const {
  std::byte* const tiles = own_strip(workspace);
  const std::int64_t next = bytes_of(columns);
  simd::best<TileRows>()({squares * Tile::pair, columns, columns, next}, gradient + row * columns, tiles);
  multiply(squares, size_.inputs, columns, tiles, next, weights(workspace), next, dx + row * size_.inputs,
           size_.inputs, accumulates);
}

void ClassifierTiles::dweight(const BFloat16* gradient, std::int64_t rows, std::int64_t columns, float* dw,
                              bool accumulates, std::byte* workspace) const {
  const std::int64_t inputs = size_.inputs;
  for_strips(columns, rows, [&](std::int64_t column, std::int64_t squares) {
    std::byte* const tiles = own_strip(workspace);
    for (std::int64_t first = 0; first < rows; first += most_rows) {
      const std::int64_t terms = std::min(most_rows, rows - first);
      const std::int64_t next = bytes_of(terms);
      simd::best<TileTranspose>()({terms, squares * Tile::pair, columns, next},
                                  gradient + first * columns + column, tiles);
      multiply(squares, inputs, terms, tiles, next, workspace + x_bytes() + bytes_of(first), bytes_of(rows),
               dw + column * inputs, inputs, accumulates || first > 0);
    }
  });
}

}  // namespace lockstep::kernels
