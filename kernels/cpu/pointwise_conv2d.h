#pragma once

#include <functional>

#include "kernels/conv2d.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// Whether each pixel meets a filter of one pixel, of all channels.
bool is_pointwise(const Conv2dGeometry& geometry, const Shape& filters);
bool blocks_channels_alone(const Layout& filters);
/// (O, I, 1, 1) as (O, I), where it is.
TensorDesc filters_as_matrix(const TensorDesc& filters);

/// Whether the weight gradient of a 1x1 convolution is computed as a product of matrices, of dy and x with a
/// row for each pixel: in bf16, where channels lie side by side and the processor has AMX. There oneDNN 2.6's
/// kernel of the convolution takes two to four times as long. With a stride the pixels that the filter meets
/// are gathered in the workspace first.
bool is_product_of_pixels(const Conv2dBackwardWeights& op, const KernelIo& io);

KernelPtr pixel_product_kernel(Cpu cpu, const Conv2dBackwardWeights& op, const KernelIo& io);

/// Likewise of data, of few pixels. With a stride the gradient is that of the pixels alone which the filter
/// meets, as `prepare` has it, written to where they are, between zeros.
bool is_product_of_pixels(const Conv2dBackwardData& op, const KernelIo& io);

using PrepareData = std::function<KernelPtr(const Conv2dBackwardData&, const KernelIo&)>;
KernelPtr pixel_product_kernel(Conv2dBackwardData op, const KernelIo& io, const PrepareData& prepare);

}  // namespace lockstep::kernels
