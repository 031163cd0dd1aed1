#pragma once

#include "kernels/conv2d.h"
#include "model/op.h"

namespace lockstep::model {

/// inputs x, w, [b]; see kernels/conv2d.h for the shapes.
class Conv2d : public LayoutKernelOp<kernels::Conv2dForward> {
 public:
  using LayoutKernelOp::LayoutKernelOp;
  std::string name() const override { return "conv2d"; }
  std::string attributes() const override;
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
  std::vector<OpPtr> variants(const kernels::Device& device, const kernels::KernelIo& io) const override;
  std::string algorithm() const override;
};

/// inputs dy, w; the op knows the shape of dx.
class Conv2dBackwardData : public LayoutKernelOp<kernels::Conv2dBackwardData> {
 public:
  Conv2dBackwardData(kernels::Conv2dBackwardData spec, Shape dx) : LayoutKernelOp(spec), dx_(std::move(dx)) {}
  std::string name() const override { return "conv2d_backward_data"; }
  std::string attributes() const override;
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
  std::vector<OpPtr> variants(const kernels::Device& device, const kernels::KernelIo& io) const override;
  std::string algorithm() const override;

 private:
  Shape dx_;
};

/// inputs x, dy; outputs dw, [db].
class Conv2dBackwardWeights : public LayoutKernelOp<kernels::Conv2dBackwardWeights> {
 public:
  Conv2dBackwardWeights(kernels::Conv2dBackwardWeights spec, Shape dw)
      : LayoutKernelOp(spec), dw_(std::move(dw)) {}
  std::string name() const override { return "conv2d_backward_weights"; }
  std::string attributes() const override;
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  double flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const override;
  std::vector<OpPtr> variants(const kernels::Device& device, const kernels::KernelIo& io) const override;
  std::string algorithm() const override;

 private:
  Shape dw_;
};

}  // namespace lockstep::model
