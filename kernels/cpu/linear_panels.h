#pragma once

#include "kernels/kernel.h"
#include "kernels/linear.h"

/// The gradients of large linear maps in f32 by our own products (kernels/panel_product.h), which are faster
/// than the library's on AVX-512. Matrices are row-major; the weights may also lie in panels of 64 outputs,
/// the library's AB16b64a.
namespace lockstep::kernels {

bool takes_panels(const LinearBackwardData& op, const KernelIo& matrices);
bool takes_panels(const LinearBackwardWeights& op, const KernelIo& matrices);

KernelPtr panel_kernel(const LinearBackwardData& op, const KernelIo& matrices);
KernelPtr panel_kernel(const LinearBackwardWeights& op, const KernelIo& matrices);

}  // namespace lockstep::kernels
