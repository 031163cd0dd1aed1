#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernels/conv2d.h"
#include "kernels/cuda/precision.h"

namespace lockstep::kernels {

/// A call of the vendor's library for neural networks with its plan chosen. The same GPU and library give the
/// same bits.
class DnnCall {
 public:
  virtual ~DnnCall() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// `operands`: addresses in the order that the function which prepared the call gives.
  virtual void launch(std::span<void* const> operands, void* workspace, cudaStream_t stream) const = 0;
};

/// A 2-d convolution or one of its gradients. Tensors have strides and no blocks; f32, bf16 or f16, all
/// alike.
struct ConvolutionSpec {
  enum class Pass { forward, backward_data, backward_weights };

  Pass pass;
  Conv2dGeometry geometry;
  TensorDesc x, w, y;  ///< or their gradients
  /// In forward alone: what is done to y before it is written. The bias is a vector.
  bool bias = false;
  bool relu = false;
  Precision precision = Precision::ieee;
};

/// For the current device. Operands: x, w, [bias], y; dy, w, dx; x, dy, dw. Null if the library has no plan
/// for this with bias or relu; DeviceError if it has none for the bare convolution.
std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec);

/// The library behind it with its version, which its bits depend on.
std::string dnn_library();

}  // namespace lockstep::kernels
