#pragma once

#include "kernels/conv2d.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

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
