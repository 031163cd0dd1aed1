#include "model/ops/losses.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/step_state.h"
#include "model/backward.h"

namespace lockstep::model {
namespace {

void check_class_targets(const Shape& logits, const ValueType& targets) {
  if (logits.rank() != 2 || targets.dtype != DType::i64 || targets.shape != Shape{logits[0]}) {
    throw UsageError(fmt::format("logits {} want one class index per row (i64), not {} {}", logits.str(),
                                 name_of(targets.dtype), targets.shape.str()));
  }
}

void check_value_targets(const ValueType& output, const ValueType& targets) {
  if (output != targets) {
    throw UsageError(fmt::format("output {} and targets {} {} differ", output.shape.str(),
                                 name_of(targets.dtype), targets.shape.str()));
  }
}

}  // namespace

ValueType step_state_type() {
  return {DType::u8, {sizeof(kernels::StepState)}};
}
ValueType control_type() {
  return {DType::u8, {sizeof(kernels::ControlBlock)}};
}

std::vector<ValueType> SoftmaxCrossEntropy::infer(std::span<const ValueType> inputs) const {
  check_class_targets(inputs[0].shape, inputs[1]);
  return {inputs[0], control_type()};
}

void SoftmaxCrossEntropy::differentiate(Backward& backward) const {
  backward.contribute(0, backward.output());
}

std::vector<ValueType> MeanSquaredError::infer(std::span<const ValueType> inputs) const {
  check_value_targets(inputs[0], inputs[1]);
  return {inputs[0], control_type()};
}

void MeanSquaredError::differentiate(Backward& backward) const {
  backward.contribute(0, backward.output());
}

std::vector<ValueType> SoftmaxCrossEntropyEval::infer(std::span<const ValueType> inputs) const {
  check_class_targets(inputs[0].shape, inputs[1]);
  return {control_type()};
}

std::vector<ValueType> MeanSquaredErrorEval::infer(std::span<const ValueType> inputs) const {
  check_value_targets(inputs[0], inputs[1]);
  return {control_type()};
}

}  // namespace lockstep::model
