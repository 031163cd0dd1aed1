#pragma once

#include "kernels/attention.h"
#include "kernels/tile_product.h"

namespace lockstep::kernels {

/// The gradient of attention of bf16 by products of tiles: a part of AttentionBackward on the CPU, without
/// documents and dropout. Probabilities and gradients of scores are rounded to bf16, sums are f32.
struct TileAttentionBackward {
  static constexpr std::string_view name = "tile_attention_backward";
  using Simd = void(const TileAttentionBackward&, const AttentionHead&, const AttentionGradients&,
                    float* scratch);
  /// Keys whose gradients of scores wait for the product that makes dq of them, in pairs of rows of tiles.
  static constexpr std::int64_t chunk = 4;

  Attention forward{};

  static bool takes(const Attention& op) { return op.p == 0 && !op.documents; }

  static constexpr std::int64_t pairs(std::int64_t n) { return (n + Tile::pair - 1) / Tile::pair; }
  /// From row to row of what has a column for each query: not a power of two.
  static constexpr std::int64_t row(std::int64_t queries) { return pairs(queries) * Tile::pair + 16; }

  /// Floats of scratch memory that a call needs.
  static constexpr std::int64_t scratch(const AttentionSize& s) {
    const std::int64_t queries = pairs(s.queries);
    const std::int64_t columns = pairs(s.dim);
    const std::int64_t tiles =
        8 * queries * columns + 4 * columns + 2 * columns * chunk + 4 * queries + 2 * queries * chunk;
    const std::int64_t rows = 2 * Tile::pair + columns * Tile::pair;
    return tiles * Tile::bytes / 4 + (rows + 2) * row(s.queries) + Tile::pair * Tile::pair * columns;
  }
};

}  // namespace lockstep::kernels
