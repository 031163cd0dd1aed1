#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/half.h"
#include "kernels/cpu/linear_tile_parts.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/kernel.h"
#include "kernels/linear.h"
#include "kernels/panel_product.h"
#include "kernels/tile_product.h"

/// Weights' gradients of linear maps by tiles: dw^T = x^T dy, whose squares of sums have a row for each of 32
/// inputs, and a column for each of 32 outputs.
namespace lockstep::kernels::linear_tiles {

struct WeightGradientArguments {
  const BFloat16* x;
  const BFloat16* dy;
  float* dw;
  float* db;  ///< may be null
  std::byte* workspace;
};

/// Where squares of sums belong in dw.
struct WeightSums {
  MatmulSize size;
  WeightLayout layout;

  /// A square, of the inputs and outputs from these on.
  void write(float* dw, std::int64_t input, std::int64_t output, const float* sums) const {
    const std::int64_t inputs = std::min(Tile::pair, layout.inputs - input);
    const std::int64_t outputs = std::min(Tile::pair, layout.outputs - output);
    if (layout.panel == 0) {
      simd::best<Transpose>()({inputs, outputs, Tile::pair, size.inputs}, sums,
                              dw + output * size.inputs + input);
      return;
    }
    TileResult panel{.rows = inputs,
                     .columns = outputs,
                     .from_row = Tile::pair,
                     .to_row = layout.panel,
                     .as = layout.pairs ? TileResult::As::pairs_of_rows : TileResult::As::rows};
    for (std::int64_t column = 0; column < outputs; column += panel.columns) {
      panel.columns = std::min(layout.panel - (output + column) % layout.panel, outputs - column);
      simd::best<TileResult>()(panel, sums + column, dw + offset(input, output + column));
    }
  }

  /// Zeros to the padding of the last panel, behind its squares.
  void clear_padding(float* dw, std::int64_t input) const {
    static constexpr float zeros[square] = {};
    for (std::int64_t output = parts_of(size.outputs, Tile::pair) * Tile::pair; output < layout.outputs;
         output += Tile::pair) {
      write(dw, input, output, zeros);
    }
  }

 private:
  /// In dw, of the sum of a panel's input.
  std::int64_t offset(std::int64_t input, std::int64_t output) const {
    const std::int64_t in_panel = output % layout.panel * (layout.pairs ? 2 : 1);
    return output / layout.panel * layout.from_panel() + input * layout.panel + in_panel;
  }
};

/// Whether all sums stay in the second cache while x, of many more rows than fit there, would be taken in
/// blocks of inputs, each of which packs dy anew.
constexpr bool keeps_all_sums(const MatmulSize& size) {
  constexpr std::int64_t most_sums = 1 << 18;
  const bool has_blocks =
      block_pairs(size.inputs, parts_of(size.rows, Tile::terms)) * Tile::pair < size.inputs;
  return has_blocks && size.inputs * size.outputs <= most_sums;
}

/// Where it does: x and dy are packed once, some rows at a time.
KernelPtr all_sums_kernel(const WeightSums& to, const KernelIo& matrices);

}  // namespace lockstep::kernels::linear_tiles
