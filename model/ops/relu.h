#pragma once

#include "kernels/elementwise.h"
#include "model/op.h"

namespace lockstep::model {

/// max(x, 0).
class Relu : public KernelOp<kernels::ReluForward> {
 public:
  std::string name() const override { return "relu"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
  void choose_layouts(const kernels::Device&, kernels::KernelIo& io) const override { follow_first(io); }
  std::optional<std::size_t> overwrites() const override { return 0; }
};

/// inputs y, dy: from the output, so that the input need not be kept.
class ReluBackward : public KernelOp<kernels::ReluBackward> {
 public:
  std::string name() const override { return "relu_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void choose_layouts(const kernels::Device&, kernels::KernelIo& io) const override { follow_first(io); }
  std::optional<std::size_t> overwrites() const override { return 1; }
};

}  // namespace lockstep::model
