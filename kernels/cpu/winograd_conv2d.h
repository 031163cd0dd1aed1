#pragma once

#include <optional>

#include "kernels/conv2d.h"
#include "kernels/kernel.h"
#include "kernels/pool2d.h"

namespace lockstep::kernels {

/// Nothing unless channels lie side by side, 8 or more, without padding.
std::optional<Planes> winograd_planes(const TensorDesc& pictures);

/// What the products of pictures of `dtype` have for factors (kernels/winograd_conv2d.h): bf16 where the
/// processor has VDPBF16PS and nothing faster.
DType winograd_factors(DType dtype);

/// Whether our own Winograd kernels (kernels/winograd_conv2d.h) can compute a convolution or a gradient of
/// it: of 3x3 filters without stride, dilation and groups, of channels that fill vectors and lie side by
/// side. Tensors without a layout count as row-major.
template <class Op>
bool has_winograd(const Op& op, const KernelIo& io);

/// Whether it is the algorithm that `op` names or, if it names none, whether it takes less time than the
/// definition by the count of products and of transforms, with factors of bf16 a quarter less. The answer
/// depends on shapes, layouts, types and the instruction set alone.
template <class Op>
bool takes_winograd(const Op& op, const KernelIo& io);

template <class Op>
KernelPtr winograd_kernel(const Op& op, const KernelIo& io);

}  // namespace lockstep::kernels
