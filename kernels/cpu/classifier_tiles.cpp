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
  return static_cast<std::size_t>(2 * x_bytes() + 2 * block() * size_.inputs + end_bytes() +
                                  threads_ * (strip_bytes() + logit_bytes()));
}

float* ClassifierTiles::end_sums(std::byte* workspace) const {
  return reinterpret_cast<float*>(weights(workspace) + 2 * block() * size_.inputs);
}

float* ClassifierTiles::own_logits(std::byte* workspace) const {
  std::byte* const all =
      weights(workspace) + 2 * block() * size_.inputs + end_bytes() + threads_ * strip_bytes();
  return reinterpret_cast<float*>(all + omp_get_thread_num() * logit_bytes());
}

std::byte* ClassifierTiles::own_strip(std::byte* workspace) const {
  return weights(workspace) + 2 * block() * size_.inputs + end_bytes() + omp_get_thread_num() * strip_bytes();
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
  const std::int64_t pairs = ClassifierSize::whole_tiles(columns) / Tile::pair;
  parallel_ranges(pairs, columns * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * Tile::pair;
    simd::best<TileColumns>()({std::min(end * Tile::pair, columns) - first, inputs, inputs, next},
                              w + first * inputs, tiles + 2 * begin * next);
  });
}

void ClassifierTiles::pack_pairs(const BFloat16* w, std::int64_t columns, std::byte* tiles) const {
  const std::int64_t inputs = size_.inputs;
  const std::int64_t padded = ClassifierSize::whole_tiles(columns);
  parallel_ranges(padded / Tile::terms, columns * inputs, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * Tile::terms;
    simd::best<TilePairs>()({std::min(end * Tile::terms, columns) - first, inputs, inputs, bytes_of(padded)},
                            w + first * inputs, tiles + begin * Tile::bytes, nullptr);
  });
}

void ClassifierTiles::multiply_logits(std::int64_t row, std::int64_t squares, std::int64_t columns,
                                      float* logits, std::byte* workspace) const {
  const std::int64_t next = bytes_of(size_.inputs);
  multiply(squares, columns, size_.inputs, workspace + row / Tile::rows * next, next, weights(workspace),
           next, logits, columns, false);
}

void ClassifierTiles::hits(const BFloat16* w, ClassifierRow* of, std::int64_t rows,
                           std::byte* workspace) const {
  const std::int64_t inputs = size_.inputs;
  const std::int64_t next = bytes_of(inputs);
  parallel_ranges(rows / Tile::pair, rows * inputs * Tile::pair, 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    std::byte* const tiles = own_strip(workspace);
                    auto* const gathered = reinterpret_cast<BFloat16*>(own_logits(workspace));
                    float products[Tile::pair * Tile::pair];
                    for (std::int64_t row = begin * Tile::pair; row < end * Tile::pair; row += Tile::pair) {
                      for (std::int64_t i = 0; i < Tile::pair; ++i) {
                        const std::int64_t target = std::max<std::int64_t>(of[row + i].target, 0);
                        std::copy_n(w + target * inputs, inputs, gathered + i * inputs);
                      }
                      simd::best<TileColumns>()({Tile::pair, inputs, inputs, next}, gathered, tiles);
                      multiply(1, Tile::pair, inputs, workspace + row / Tile::rows * next, next, tiles, next,
                               products, Tile::pair, false);
                      for (std::int64_t i = 0; i < Tile::pair; ++i)
                        of[row + i].hit = products[i * Tile::pair + i];
                    }
                  });
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
  const std::int64_t padded = ClassifierSize::whole_tiles(columns);
  const std::int64_t whole = columns / Tile::pair;
  for_strips(padded, rows, [&](std::int64_t column, std::int64_t squares) {
    std::byte* const tiles = own_strip(workspace);
    const std::int64_t inside = std::min(squares, whole - column / Tile::pair);
    for (std::int64_t first = 0; first < rows; first += most_rows) {
      const std::int64_t terms = std::min(most_rows, rows - first);
      const std::int64_t next = bytes_of(terms);
      simd::best<TileTranspose>()({terms, squares * Tile::pair, padded, next},
                                  gradient + first * padded + column, tiles);
      const std::byte* const x = workspace + x_bytes() + bytes_of(first);
      multiply(inside, inputs, terms, tiles, next, x, bytes_of(rows), dw + column * inputs, inputs,
               accumulates || first > 0);
      if (inside == squares) continue;
      multiply(1, inputs, terms, tiles + 2 * inside * next, next, x, bytes_of(rows), end_sums(workspace),
               inputs, first > 0);
    }
    if (inside == squares) return;
    const float* const sums = end_sums(workspace);
    float* const end = dw + whole * Tile::pair * inputs;
    for (std::int64_t i = 0; i < (columns - whole * Tile::pair) * inputs; ++i) {
      end[i] = accumulates ? end[i] + sums[i] : sums[i];
    }
  });
}

}  // namespace lockstep::kernels
