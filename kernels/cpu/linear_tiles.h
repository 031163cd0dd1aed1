#pragma once

#include "kernels/kernel.h"
#include "kernels/linear.h"

/// Gradients of linear maps of bf16 by our own products of tiles (kernels/tile_product.h), where the
/// processor has AMX: of weights in f32, of data in bf16. Matrices are row-major; the weights may also lie as
/// the library has them, in panels of multiples of 16 outputs (AB16b64a, Ab48a), two inputs side by side
/// (AB16b64a2b, AB48a2b).
namespace lockstep::kernels {

/// Whether these matrices lie so that `tile_kernel` can compute them.
bool can_use_tiles(const LinearBackwardData& op, const KernelIo& matrices);
/// Whether it is faster than the library, too.
bool takes_tiles(const LinearBackwardData& op, const KernelIo& matrices);
bool takes_tiles(const LinearBackwardWeights& op, const KernelIo& matrices);

KernelPtr tile_kernel(const LinearBackwardData& op, const KernelIo& matrices);
KernelPtr tile_kernel(const LinearBackwardWeights& op, const KernelIo& matrices);

}  // namespace lockstep::kernels
