#pragma once

#include "kernels/loss.h"
#include "model/op.h"

namespace lockstep::model {

/// The types of the two values that every training step has: see kernels/step_state.h.
ValueType step_state_type();
ValueType control_type();

/// inputs logits, targets, step state; outputs dlogits, control. The end of forward and the start of
/// backward.
class SoftmaxCrossEntropy : public KernelOp<kernels::SoftmaxCrossEntropy> {
 public:
  using KernelOp::KernelOp;
  std::string name() const override { return "softmax_cross_entropy"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
};

class MeanSquaredError : public KernelOp<kernels::MeanSquaredError> {
 public:
  std::string name() const override { return "mean_squared_error"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  void differentiate(Backward& backward) const override;
};

/// The same without the gradient: outputs control.
class SoftmaxCrossEntropyEval : public KernelOp<kernels::SoftmaxCrossEntropyEval> {
 public:
  std::string name() const override { return "softmax_cross_entropy_eval"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
};

class MeanSquaredErrorEval : public KernelOp<kernels::MeanSquaredErrorEval> {
 public:
  std::string name() const override { return "mean_squared_error_eval"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
};

}  // namespace lockstep::model
