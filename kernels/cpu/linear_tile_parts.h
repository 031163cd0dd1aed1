#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/base/division.h"
#include "kernels/layout.h"
#include "kernels/tile_product.h"

/// How both gradients of a linear map (kernels/cpu/linear_tiles.h) are cut into parts, by the shapes alone
/// but for what each thread takes.
namespace lockstep::kernels::linear_tiles {

/// Tiles of a sum at a time, at most: what is packed of them stays in the second cache, and so do the sums.
inline constexpr std::int64_t most_depth = 32;
/// Sums of two rows and two columns of tiles, which lie side by side.
inline constexpr std::int64_t square = Tile::pair * Tile::pair;
/// Tiles of the packed factor that all parts of a product read, likewise.
inline constexpr std::int64_t block_tiles = 1024;
/// Outputs of which a thread computes the weights' gradients at a time: as many as a row of dy is read of at
/// once, since rows lie in pages of their own.
inline constexpr std::int64_t most_outputs = 256;

/// Pairs of rows or columns of tiles in a block, as equal as they can be.
constexpr std::int64_t block_pairs(std::int64_t width, std::int64_t depth) {
  const std::int64_t pairs = parts_of(width, Tile::pair);
  const std::int64_t most = std::max<std::int64_t>(1, block_tiles / (2 * depth));
  return parts_of(pairs, parts_of(pairs, most));
}

/// Tiles of a chunk of a sum, all as equal as they can be.
constexpr std::int64_t chunk_of(std::int64_t depth) {
  return parts_of(depth, parts_of(depth, most_depth));
}

/// How weights (O, I) lie: row-major, or in panels of outputs.
struct WeightLayout {
  std::int64_t panel = 0;                ///< outputs of one, a multiple of 16; 0: row-major
  bool pairs = false;                    ///< two inputs side by side
  std::int64_t inputs = 0, outputs = 0;  ///< padded

  std::int64_t from_panel() const { return inputs * panel; }
};

inline std::optional<WeightLayout> weight_layout(const TensorDesc& w) {
  if (w.is_row_major()) return WeightLayout{0, false, w.shape[1], w.shape[0]};
  const Layout& layout = *w.layout;
  const std::vector<Layout::Block>& blocks = layout.blocks;
  // Inputs may be taken some at a time, which changes no place in a panel.
  const std::size_t at = !blocks.empty() && blocks[0].dim == 1 ? 1 : 0;
  if (at == blocks.size() || blocks[at].dim != 0) return std::nullopt;
  const bool pairs = blocks.size() == at + 2 && blocks[at + 1] == Layout::Block{1, 2};
  const WeightLayout panels{blocks[at].size, pairs, layout.padded[1], layout.padded[0]};
  const std::int64_t strip = (at == 1 ? blocks[0].size : 1) * (pairs ? 2 : 1);
  const bool known = panels.panel % Tile::rows == 0 && (pairs || blocks.size() == at + 1) &&
                     layout.strides[1] == strip * panels.panel && layout.strides[0] == panels.from_panel();
  return known ? std::optional(panels) : std::nullopt;
}

}  // namespace lockstep::kernels::linear_tiles
