#pragma once

#include "kernels/pool2d.h"
#include "model/op.h"

namespace lockstep::model {

/// inputs x (N, C, H, W).
class MaxPool2d : public LayoutKernelOp<kernels::MaxPool2dForward> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "max_pool2d"; }
  std::string attributes() const override;
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
};

/// inputs x, dy.
class MaxPool2dBackward : public LayoutKernelOp<kernels::MaxPool2dBackward> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "max_pool2d_backward"; }
  std::string attributes() const override { return spec().relu_mask ? "+relu_backward" : ""; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override { return {inputs[0]}; }
};

/// inputs x (N, C, H, W); padding counts as in PyTorch's default.
class AvgPool2d : public LayoutKernelOp<kernels::AvgPool2dForward> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "avg_pool2d"; }
  std::string attributes() const override;
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
};

/// inputs dy; the op knows the shape of dx.
class AvgPool2dBackward : public LayoutKernelOp<kernels::AvgPool2dBackward> {
 public:
  AvgPool2dBackward(kernels::AvgPool2dBackward spec, Shape dx) : LayoutKernelOp(spec), dx_(std::move(dx)) {}
  std::string name() const override { return "avg_pool2d_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {{inputs[0].dtype, dx_}};
  }

 private:
  Shape dx_;
};

}  // namespace lockstep::model
