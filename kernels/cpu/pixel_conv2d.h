#pragma once

#include "kernels/conv2d.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// Convolutions of pictures of one pixel by filters of one, as they follow a global average pool: linear
/// maps. As convolutions of the library's, all weight gradients of MobileNetV3 at 32x32 took three times as
/// long.
bool is_of_pixels(const Conv2d& op, const KernelIo& io);
bool is_of_pixels(const Conv2dBackwardData& op, const KernelIo& io);
bool is_of_pixels(const Conv2dBackwardWeights& op, const KernelIo& io);

/// Of pictures channel after channel; what is open takes the form of what is not.
void choose_pixel_layouts(Cpu cpu, const Conv2d& op, KernelIo& io);
void choose_pixel_layouts(Cpu cpu, const Conv2dBackwardData& op, KernelIo& io);
void choose_pixel_layouts(Cpu cpu, const Conv2dBackwardWeights& op, KernelIo& io);

KernelPtr pixel_kernel(Cpu cpu, const Conv2d& op, const KernelIo& io);
KernelPtr pixel_kernel(Cpu cpu, const Conv2dBackwardData& op, const KernelIo& io);
KernelPtr pixel_kernel(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io);

}  // namespace lockstep::kernels
