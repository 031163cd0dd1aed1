#pragma once

#include "kernels/linear.h"
#include "model/op.h"

namespace lockstep::model {

/// inputs x, w, [b]; see kernels/linear.h for the shapes.
class Linear : public LayoutKernelOp<kernels::LinearForward> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "linear"; }
  std::string attributes() const override { return spec().relu ? "+relu" : ""; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
};

/// inputs dy, w; the shape of dx follows from both.
class LinearBackwardData : public LayoutKernelOp<kernels::LinearBackwardData> {
 public:
  std::string name() const override { return "linear_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
};

/// inputs x, dy; outputs dw, [db].
class LinearBackwardWeights : public LayoutKernelOp<kernels::LinearBackwardWeights> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "linear_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
};

}  // namespace lockstep::model
