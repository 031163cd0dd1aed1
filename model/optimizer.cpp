#include "model/optimizer.h"

#include <fmt/format.h>

#include "kernels/dispatch.h"
#include "kernels/optimizer.h"

namespace lockstep::model {

std::vector<std::string> state_names(const OptimizerOptions& options) {
  if (options.kind == OptimizerKind::sgd) {
    return options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{};
  }
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (options.amsgrad) names.emplace_back("max_exp_avg_sq");
  return names;
}

namespace {

/// What is not the default, since checkpoints hold a hash of it.
std::string describe_more(const OptimizerOptions& o) {
  std::string text = o.amsgrad ? " amsgrad" : "";
  if (o.clip_value != kernels::not_clipped) text += fmt::format(" clip_value={}", o.clip_value);
  const kernels::LearningRateSchedule& s = o.schedule;
  using Kind = kernels::LearningRateSchedule::Kind;
  if (s.kind == Kind::constant && s.warmup_steps == 0) return text;
  text += fmt::format(" schedule={} least={} gamma={} step_epochs={} warmup_steps={}",
                      static_cast<int>(s.kind), s.least, s.gamma, s.step_epochs, s.warmup_steps);
  // Runs with the others may go on to a later end.
  if (s.kind == Kind::cosine || s.kind == Kind::linear) text += fmt::format(" steps={}", s.steps);
  return text;
}

}  // namespace

std::string describe(const OptimizerOptions& o) {
  if (o.kind == OptimizerKind::sgd) {
    return fmt::format("sgd lr={} momentum={} dampening={} nesterov={} weight_decay={}{}", o.learning_rate,
                       o.momentum, o.dampening, o.nesterov, o.weight_decay, describe_more(o));
  }
  return fmt::format("{} lr={} betas={},{} eps={} weight_decay={}{}",
                     o.kind == OptimizerKind::adam ? "adam" : "adamw", o.learning_rate, o.beta1, o.beta2,
                     o.epsilon, o.weight_decay, describe_more(o));
}

kernels::KernelIo update_io(const OptimizerOptions& options, std::int64_t elements, DType gradients,
                            DType copies) {
  const kernels::TensorDesc slice{.dtype = DType::f32, .shape = {elements}, .layout = {}};
  const kernels::TensorType state = kernels::step_state_type();
  kernels::KernelIo io{.inputs = {{.dtype = gradients, .shape = {elements}, .layout = {}},
                                  {.dtype = state.dtype, .shape = state.shape, .layout = {}}},
                       .outputs = std::vector(1 + state_names(options).size(), slice)};
  if (is_half(copies)) io.outputs.push_back({.dtype = copies, .shape = {elements}, .layout = {}});
  return io;
}

kernels::SgdUpdate sgd_update(const OptimizerOptions& o) {
  return {.momentum = o.momentum,
          .dampening = o.dampening,
          .weight_decay = o.weight_decay,
          .nesterov = o.nesterov,
          .clip_value = o.clip_value};
}

kernels::AdamUpdate adam_update(const OptimizerOptions& o) {
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .epsilon = o.epsilon,
          .weight_decay = o.weight_decay,
          .decoupled = o.kind == OptimizerKind::adamw,
          .amsgrad = o.amsgrad,
          .clip_value = o.clip_value};
}

kernels::KernelPtr update_kernel(const kernels::Device& device, const OptimizerOptions& options,
                                 const kernels::KernelIo& io, std::int64_t decayed) {
  const auto kernel_of = [&](auto update) {
    update.decayed = decayed;
    return kernels::kernel_for(device, update, io);
  };
  return options.kind == OptimizerKind::sgd ? kernel_of(sgd_update(options))
                                            : kernel_of(adam_update(options));
}

kernels::BeginStep begin_step(const OptimizerOptions& o) {
  if (o.kind == OptimizerKind::sgd) return {.schedule = o.schedule};
  return {.beta1 = o.beta1, .beta2 = o.beta2, .schedule = o.schedule};
}

}  // namespace lockstep::model
