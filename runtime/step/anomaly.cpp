#include "runtime/step/anomaly.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kernels/attention.h"
#include "kernels/base/half.h"
#include "kernels/step_state.h"

namespace lockstep::runtime {
namespace {

bool is_control(const Operand& operand) {
  return operand.region == Region::control || operand.region == Region::evaluation_control;
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || is_half(dtype);
}

float as_float(float value) {
  return value;
}
float as_float(double value) {
  return static_cast<float>(value);
}
template <class Half>
float as_float(Half value) {
  return widen(value);
}

struct Found {
  std::size_t element;
  float value;
};

template <class Element>
std::optional<Found> first_not_finite(const std::vector<std::byte>& bytes) {
  const auto* const values = reinterpret_cast<const Element*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(Element); ++i) {
    const float value = as_float(values[i]);
    if (!std::isfinite(value)) return Found{i, value};
  }
  return std::nullopt;
}

std::optional<Found> first_not_finite(DType dtype, const std::vector<std::byte>& bytes) {
  if (dtype == DType::bf16) return first_not_finite<BFloat16>(bytes);
  if (dtype == DType::f16) return first_not_finite<Float16>(bytes);
  if (dtype == DType::f64) return first_not_finite<double>(bytes);
  return first_not_finite<float>(bytes);
}

/// Broken scores show in y.
bool is_logsumexp(const model::Node& node, std::size_t output) {
  return node.op->as<kernels::Attention>() != nullptr && output == kernels::Attention::logsumexp;
}

/// A loss writes the control block, and behind it gradients.
bool is_gradient(const model::Graph& graph, const model::Node& node, std::size_t output) {
  const bool is_loss = graph.value(node.outputs.front()).role == model::Role::control;
  return node.phase == model::Phase::backward || (is_loss && output > 0);
}

bool need_not_be_finite(const Plan& plan, const Step& step, std::size_t output) {
  const bool scales_gradients = plan.compute_dtype == DType::f16;
  if (step.kind != Step::Kind::launch) {
    return scales_gradients && (step.kind == Step::Kind::add_rows || step.kind == Step::Kind::clip);
  }
  const model::Node& node = plan.graph.nodes()[step.index];
  return is_logsumexp(node, output) || (scales_gradients && is_gradient(plan.graph, node, output));
}

std::string phase_of(const Plan& plan, const Step& step) {
  if (step.kind != Step::Kind::launch) return {};
  return plan.graph.nodes()[step.index].phase == model::Phase::forward ? " (forward)" : " (backward)";
}

}  // namespace

void AnomalyDetector::add(const kernels::BoundKernel& kernel, const Plan& plan, const Step& step,
                          std::size_t slot) {
  const Launch& launch = *plan.launch_of(step);
  std::vector<Output>& outputs = outputs_[&kernel];
  for (std::size_t i = 0; i < launch.io.outputs.size(); ++i) {
    const Operand& operand = launch.operands[launch.io.inputs.size() + i];
    const kernels::TensorDesc& tensor = launch.io.outputs[i];
    if (!is_control(operand) && !is_float(tensor.dtype)) continue;
    if (need_not_be_finite(plan, step, i)) continue;
    outputs.push_back({.index = i,
                       .data = memory_.address(operand, slot),
                       .dtype = is_control(operand) ? kernels::ControlBlock::dtype : tensor.dtype,
                       .bytes = tensor.bytes(),
                       .phase = phase_of(plan, step)});
  }
}

std::string AnomalyDetector::examine(const kernels::BoundKernel& kernel, kernels::Stream& stream) {
  for (const Output& output : outputs_.at(&kernel)) {
    copied_.resize(output.bytes);
    device_.copy_to_host(copied_.data(), output.data, output.bytes, stream);
    stream.synchronize();
    if (const auto found = first_not_finite(output.dtype, copied_)) {
      return fmt::format("{} at element {} of output {}{}", found->value, found->element, output.index,
                         output.phase);
    }
  }
  return {};
}

}  // namespace lockstep::runtime
