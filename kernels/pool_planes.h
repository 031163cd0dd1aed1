#pragma once

#include "kernels/pool2d.h"

namespace lockstep::kernels {

/// One plane of lanes: `lanes` channels that lie side by side (16 in nChw16c, 1 in nchw, C in channels-last).
struct PoolPlane {
  std::int64_t height, width, out_height, out_width;
  std::int64_t x_row, y_row, pixel;  ///< elements from row to row of x and y, and from pixel to pixel
  std::int64_t lanes;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
};

/// A layout seen as images of groups of planes: `lanes` channels side by side, pixel by pixel.
struct Planes {
  std::int64_t lanes, groups;             ///< groups * lanes: the channels, padded
  std::int64_t image, group, row, pixel;  ///< strides, in elements
};

/// The tensors of a pool as their kernels walk them: groups, lanes and pixels of x and y correspond.
struct PoolPlanes {
  Planes x, y;
};

/// For x, y or their gradients. UsageError unless both lie plain, channels-last, or blocked in channels
/// alike.
PoolPlanes pool_planes(const TensorDesc& x, const TensorDesc& y);

/// x's layout if a pool can use it (or y's, if x is free), else plain; y follows.
void choose_pool_layouts(TensorDesc& x, TensorDesc& y);

}  // namespace lockstep::kernels
