#pragma once

#include <array>

#include "kernels/conv2d.h"
#include "kernels/pool2d.h"

/// Winograd's minimal filtering F(4x4, 3x3) on CPUs (A. Lavin and S. Gray, "Fast algorithms for convolutional
/// neural networks", arXiv 1509.09308): the transform of a tile of 6x6 pixels and that of a 3x3 filter are
/// multiplied element by element, which takes 36 products for 16 pixels where the definition takes 144.
/// Summed over channels the products are 36 matrix products. Weight gradients are F(3x3, 4x4), with the same
/// six points and so the same transform of the pictures. The parts of it are SIMD kernels; each is told its
/// range. Strides are in elements.
namespace lockstep::kernels {

struct WinogradTiles {
  static constexpr std::int64_t extent = 4;      ///< pixels of y that a tile has along an axis
  static constexpr std::int64_t window = 6;      ///< pixels of x that these come from
  static constexpr std::int64_t positions = 36;  ///< elements of a transform
  static constexpr std::int64_t panel = 16;      ///< columns of a matrix that lie side by side

  DType dtype;
  std::int64_t height, width;  ///< of the pictures
  std::int64_t rows, columns;  ///< of tiles in a picture
  Planes planes;               ///< of the pictures: lanes are a multiple of 8
};

/// Where a matrix is that the transforms and products work on: columns lie in panels, so element (row,
/// column) is at column / WinogradTiles::panel * panel + row * WinogradTiles::panel + column %
/// WinogradTiles::panel. There is one matrix for each position of a transform.
struct WinogradMatrices {
  std::int64_t position, panel;
};

/// The tiles and panels of channels that a call transforms: rows and columns of the matrices, whose first row
/// is that of tile `origin`.
struct WinogradRange {
  std::int64_t first_tile, end_tile, origin;
  std::int64_t first_panel, end_panel;
  WinogradMatrices matrices;
};

/// Pictures to transforms: of windows of 6x6 pixels, or, for a gradient of y, of the tiles of 4x4.
struct WinogradInput {
  static constexpr std::string_view name = "winograd_input";
  using Simd = void(const WinogradInput&, const WinogradRange&, const void* pictures, float* transforms);

  WinogradTiles tiles;
  bool is_gradient;
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
  using Simd = void(const WinogradWeights&, const WinogradFilters&, const void* w, float* transforms);

  WinogradMatrices matrices;
};

/// The sums of products of transforms to gradients of filters.
struct WinogradWeightGradients {
  static constexpr std::string_view name = "winograd_weight_gradients";
  using Simd = void(const WinogradWeightGradients&, const WinogradFilters&, const float* transforms,
                    void* dw);

  WinogradMatrices matrices;
};

/// c = a b or, with `transposes`, c = a^T b; with `accumulates` it is added to c. Sums are taken in the order
/// of `depth`, whatever the other extents. The strides are from panel to panel.
struct WinogradProduct {
  static constexpr std::string_view name = "winograd_product";
  using Simd = void(const WinogradProduct&, const float* a, const float* b, float* c);

  std::int64_t rows, depth, panels;  ///< of c; `depth` is a's columns or, with `transposes`, rows
  std::int64_t a_panel, b_panel, c_panel;
  bool transposes, accumulates;
};

}  // namespace lockstep::kernels
