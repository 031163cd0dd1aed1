#pragma once

#include <string_view>

#include "kernels/pool2d.h"

namespace lockstep::kernels {

/// A layout seen as images of groups of planes: `lanes` channels side by side, pixel by pixel.
struct Planes {
  std::int64_t lanes, groups;             ///< groups * lanes: the channels, padded
  std::int64_t image, group, row, pixel;  ///< strides, in elements
};

/// The tensors of a pool as their kernels walk them: groups, lanes and pixels of x and y correspond.
struct PoolPlanes {
  Planes x, y;
};

/// UsageError unless y is what pooling x gives, and both lie plain, channels-last, or blocked in channels
/// alike.
PoolPlanes pool_planes(std::string_view kernel, const Pool2dGeometry& geometry, const TensorDesc& x,
                       const TensorDesc& y);

/// The same for inputs x, dy and outputs dx, which must lie as x does.
PoolPlanes max_pool_backward_planes(std::string_view kernel, const Pool2dGeometry& geometry,
                                    const KernelIo& io);

/// x's layout if a pool can use it (or y's, if x is free), else plain; y follows.
void choose_pool_layouts(std::string_view kernel, const Pool2dGeometry& geometry, TensorDesc& x,
                         TensorDesc& y);

}  // namespace lockstep::kernels
