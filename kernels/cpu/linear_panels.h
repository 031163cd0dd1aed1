#pragma once

#include "kernels/kernel.h"
#include "kernels/linear.h"

/// Gradients of linear maps, of data large ones', by our own products (kernels/panel_product.h), where they
/// are faster than the library's: both in f32 on AVX-512, those of weights on AVX2 too, and in f32 from bf16
/// on AVX512_BF16 without AMX. Matrices are row-major; the weights may also lie in panels of 64 outputs, the
/// library's AB16b64a and, for their gradient, AB8b64a2b, which may be column-major, too.
namespace lockstep::kernels {

bool takes_panels(const LinearBackwardData& op, const KernelIo& matrices);
bool takes_panels(const LinearBackwardWeights& op, const KernelIo& matrices);

KernelPtr panel_kernel(const LinearBackwardData& op, const KernelIo& matrices);
KernelPtr panel_kernel(const LinearBackwardWeights& op, const KernelIo& matrices);

}  // namespace lockstep::kernels
