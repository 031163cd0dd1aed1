#pragma once

#include <array>

#include "kernels/conv2d.h"
#include "kernels/pool2d.h"

/// Winograd's minimal filtering F(m x m, 3x3) on CPUs (A. Lavin and S. Gray, "Fast algorithms for
/// convolutional neural networks", arXiv 1509.09308): the transform of a tile of (m + 2)^2 pixels and that of
/// a 3x3 filter are multiplied element by element. With m = 4 these are 36 products for 16 pixels where the
/// definition takes 144, with m = 2 they are 16 for 4 pixels, and 36. Summed over channels the products are a
/// matrix product for each element. Weight gradients are F(3x3, m x m), with the same points and so the same
/// transform of the pictures. The parts of it are SIMD kernels; each is told its range.
///
/// Transforms are rounded to the products' factors: to f32 with m = 4, or to bf16 with m = 2, whose
/// coefficients of 0, 1 and 1/2 amplify the rounding least: the result is off by 0.4 % of its mean magnitude
/// where m = 4 would make it 1.2 %, and where that of a result in bf16 alone is 0.2 %. A word of 32 bits
/// holds an f32 or two bf16; strides of transforms are in words, those of tensors in elements.
namespace lockstep::kernels {

/// The extent m of tiles whose products are of these factors.
constexpr std::int64_t winograd_extent(DType factors) {
  return factors == DType::bf16 ? 2 : 4;
}

struct WinogradTiles {
  static constexpr std::int64_t panel = 16;  ///< columns of a matrix that lie side by side

  DType dtype;
  DType factors;               ///< f32 or bf16
  std::int64_t height, width;  ///< of the pictures
  std::int64_t rows, columns;  ///< of tiles in a picture
  Planes planes;               ///< of the pictures: lanes are a multiple of 8
};

/// Where a matrix is that the transforms and products work on: columns lie in panels, so element (row,
/// column) is at column / WinogradTiles::panel * panel + row * WinogradTiles::panel + column %
/// WinogradTiles::panel. There is one matrix for each element of a transform. Of bf16, a word holds two rows
/// of a column, but in the left factor of a convolution two columns of a row: panels are half as wide there.
struct WinogradMatrices {
  std::int64_t position, panel;
};

/// The tiles and panels of channels that a call transforms: rows and columns of the matrices, whose first row
/// is that of tile `origin`. Tiles that share words are not shared among calls.
struct WinogradRange {
  std::int64_t first_tile, end_tile, origin;
  std::int64_t first_panel, end_panel;
  WinogradMatrices matrices;
};

/// Pictures to transforms: of windows of (m + 2)^2 pixels, or, for a gradient of y, of the tiles.
struct WinogradInput {
  static constexpr std::string_view name = "winograd_input";
  using Simd = void(const WinogradInput&, const WinogradRange&, const void* pictures, void* transforms);

  WinogradTiles tiles;
  bool is_gradient;
  bool pairs_tiles;                     ///< a word of bf16 holds two tiles, not two channels
  std::array<std::int64_t, 2> padding;  ///< the first tile begins so far above and left of the picture
};

/// Transforms to pictures. `b` may be null.
struct WinogradOutput {
  static constexpr std::string_view name = "winograd_output";
  using Simd = void(const WinogradOutput&, const WinogradRange&, const float* transforms, const void* b,
                    void* pictures);

  WinogradTiles tiles;
  Activation activation;
};

/// Where the filters are: that from input i to output o begins at outputs[o] + inputs[i].
struct WinogradFilters {
  DType dtype;
  const std::int64_t* outputs;
  const std::int64_t* inputs;
  std::int64_t row, column;  ///< from tap to tap; negative for filters that are read backwards
  std::int64_t first_output, end_output;
  std::int64_t first_input, end_input;
};

/// Filters to transforms: inputs are the rows.
struct WinogradWeights {
  static constexpr std::string_view name = "winograd_weights";
  using Simd = void(const WinogradWeights&, const WinogradFilters&, const void* w, void* transforms);

  DType factors;
  WinogradMatrices matrices;
};

/// The sums of products of transforms to gradients of filters.
struct WinogradWeightGradients {
  static constexpr std::string_view name = "winograd_weight_gradients";
  using Simd = void(const WinogradWeightGradients&, const WinogradFilters&, const float* transforms,
                    void* dw);

  DType factors;
  WinogradMatrices matrices;
};

/// c = a b or, with `transposes`, c = a^T b; with `accumulates` it is added to c. Sums are taken in the order
/// of `depth`, whatever the other extents. The strides are from panel to panel.
struct WinogradProduct {
  static constexpr std::string_view name = "winograd_product";
  using Simd = void(const WinogradProduct&, const void* a, const void* b, float* c);

  DType factors;
  std::int64_t rows, depth,
      panels;  ///< of c; `depth` is a's words in a row or, with `transposes`, rows of words
  std::int64_t a_panel, b_panel, c_panel;
  bool transposes, accumulates;
};

}  // namespace lockstep::kernels
