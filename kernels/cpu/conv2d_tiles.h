#pragma once

#include "kernels/conv2d.h"
#include "kernels/kernel.h"

/// Convolutions of bf16 and their gradients by our own products of tiles (kernels/tile_product.h), where the
/// processor has AMX: pictures channels-last, filters as the library has them for AMX. ResNet-18's, batch 16:
/// weights at 0.6 to 0.9 TFLOP/s (the first layer 0.3), the library's at 0.12 to 0.86; data at 0.7 to 1.2, of
/// strided ones and of small pictures the library's at 0.3 to 0.5; forward of small pictures at 0.7 to 1.1,
/// the library's at 0.5 to 0.75.
namespace lockstep::kernels {

/// Whether these tensors lie so that `tile_kernel` can compute them.
bool can_use_tiles(const Conv2d& op, const KernelIo& io);
bool can_use_tiles(const Conv2dBackwardData& op, const KernelIo& io);
bool can_use_tiles(const Conv2dBackwardWeights& op, const KernelIo& io);
/// Whether it is faster than the library, too. Gradients of weights are computed so wherever they can be.
bool takes_tiles(const Conv2d& op, const KernelIo& io);
bool takes_tiles(const Conv2dBackwardData& op, const KernelIo& io);

KernelPtr tile_kernel(const Conv2d& op, const KernelIo& io);
KernelPtr tile_kernel(const Conv2dBackwardData& op, const KernelIo& io);
KernelPtr tile_kernel(const Conv2dBackwardWeights& op, const KernelIo& io);

}  // namespace lockstep::kernels
