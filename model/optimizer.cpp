#include "model/optimizer.h"

#include <fmt/format.h>

#include "kernels/dispatch.h"
#include "kernels/optimizer.h"

namespace lockstep::model {

std::vector<std::string> state_names(const OptimizerOptions& options) {
  if (options.kind != OptimizerKind::sgd) return {"exp_avg", "exp_avg_sq"};
  if (options.momentum != 0) return {"momentum_buffer"};
  return {};
}

std::string describe(const OptimizerOptions& o) {
  if (o.kind == OptimizerKind::sgd) {
    return fmt::format("sgd lr={} momentum={} dampening={} nesterov={} weight_decay={}", o.learning_rate,
                       o.momentum, o.dampening, o.nesterov, o.weight_decay);
  }
  return fmt::format("{} lr={} betas={},{} eps={} weight_decay={}",
                     o.kind == OptimizerKind::adam ? "adam" : "adamw", o.learning_rate, o.beta1, o.beta2,
                     o.epsilon, o.weight_decay);
}

kernels::KernelIo update_io(const OptimizerOptions& options, std::int64_t elements) {
  const kernels::TensorDesc slice{.dtype = DType::f32, .shape = {elements}, .layout = {}};
  const kernels::TensorType state = kernels::step_state_type();
  return {.inputs = {slice, {.dtype = state.dtype, .shape = state.shape, .layout = {}}},
          .outputs = std::vector(1 + state_names(options).size(), slice)};
}

kernels::SgdUpdate sgd_update(const OptimizerOptions& o) {
  return {.momentum = o.momentum,
          .dampening = o.dampening,
          .weight_decay = o.weight_decay,
          .nesterov = o.nesterov};
}

kernels::AdamUpdate adam_update(const OptimizerOptions& o) {
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .weight_decay = o.weight_decay,
          .decoupled = o.kind == OptimizerKind::adamw};
}

void set_rate(const OptimizerOptions& options, kernels::StepState& state) {
  state.learning_rate = options.learning_rate;
}

kernels::KernelPtr update_kernel(const kernels::Device& device, const OptimizerOptions& options,
                                 const kernels::KernelIo& io) {
  if (options.kind == OptimizerKind::sgd) return kernels::kernel_for(device, sgd_update(options), io);
  return kernels::kernel_for(device, adam_update(options), io);
}

kernels::BeginStep begin_step(const OptimizerOptions& o) {
  if (o.kind == OptimizerKind::sgd) return {};
  return {.beta1 = o.beta1, .beta2 = o.beta2};
}

}  // namespace lockstep::model
