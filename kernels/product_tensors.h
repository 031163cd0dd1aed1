#pragma once

#include "kernels/conv2d.h"
#include "kernels/linear.h"

namespace lockstep::kernels {

/// The tensors of a linear map or convolution under their own names, whichever of them are inputs: x is dx in
/// backward data. Valid as long as the KernelIo.
struct ProductTensors {
  const TensorDesc& x;
  const TensorDesc& w;
  const TensorDesc* b;
  const TensorDesc& y;
};

/// UsageError naming kernel and tensor if they do not fit each other.
ProductTensors tensors_of(const LinearForward& spec, const KernelIo& io);
ProductTensors tensors_of(const LinearBackwardData& spec, const KernelIo& io);
ProductTensors tensors_of(const LinearBackwardWeights& spec, const KernelIo& io);
ProductTensors tensors_of(const Conv2dForward& spec, const KernelIo& io);
ProductTensors tensors_of(const Conv2dBackwardData& spec, const KernelIo& io);
ProductTensors tensors_of(const Conv2dBackwardWeights& spec, const KernelIo& io);

}  // namespace lockstep::kernels
