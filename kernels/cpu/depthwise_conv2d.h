#pragma once

#include <algorithm>

#include "kernels/conv2d.h"
#include "kernels/depthwise_conv2d.h"
#include "kernels/kernel.h"
#include "kernels/pool2d.h"

namespace lockstep::kernels {

/// Lanes of a picture that one call of a SIMD kernel computes.
inline std::int64_t depthwise_lanes(const Planes& picture) {
  return std::min(picture.lanes, DepthwiseRow::most_lanes);
}

/// Whether the channels of these filters are blocked as those of the picture, or not at all.
inline bool has_lanes_of(const Layout& filters, const Planes& picture) {
  if (filters.blocks.empty()) return true;
  return filters.blocks.size() == 1 && filters.blocks[0].dim == 0 &&
         filters.blocks[0].size == depthwise_lanes(picture);
}

/// Whether our own kernel computes these weight gradients: of one filter a channel, in pictures whose
/// channels lie side by side, but not for 3x3. There oneDNN 2.6 has a faster one; for 5x5 it takes some 50
/// times as long as ours.
bool is_depthwise(const Conv2dBackwardWeights& op, const KernelIo& io);

/// dy takes the layout of x, which is channels-last if it is free. False where our kernel does not compute
/// them; then nothing is chosen.
bool choose_depthwise_layouts(const Conv2dBackwardWeights& op, KernelIo& io);

KernelPtr depthwise_kernel(const Conv2dBackwardWeights& op, const KernelIo& io);

/// Whether our own kernel can compute these convolutions. It is for shapes that oneDNN generates no code for,
/// as of pictures smaller than the filter: its general way takes some 500 times as long.
bool is_depthwise(const Conv2d& op, const KernelIo& io);

/// As for the weight gradients; y takes the layout of x.
bool choose_depthwise_layouts(const Conv2d& op, KernelIo& io);

KernelPtr depthwise_kernel(const Conv2d& op, const KernelIo& io);

}  // namespace lockstep::kernels
