#include "model/optimizer.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/dispatch.h"
#include "kernels/optimizer.h"

namespace lockstep::model {

// No switch over the kind has a default, so that the compiler names each for a further kind.

std::vector<std::string> state_names(const OptimizerOptions& options) {
  std::vector<std::string> names;
  switch (options.kind) {
    case OptimizerKind::sgd:
      if (options.momentum != 0) names.emplace_back("momentum_buffer");
      break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      names = {"exp_avg", "exp_avg_sq"};
      if (options.amsgrad) names.emplace_back("max_exp_avg_sq");
      break;
  }
  return names;
}

namespace {

std::string_view name_of(OptimizerKind kind) {
  return std::ranges::find(optimizer_kinds, kind, [](const auto& row) { return row.first; })->second;
}

/// What the kind reads alone.
std::string describe_kind(const OptimizerOptions& o) {
  switch (o.kind) {
    case OptimizerKind::sgd:
      return fmt::format("momentum={} dampening={} nesterov={}", o.momentum, o.dampening, o.nesterov);
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return fmt::format("betas={},{} eps={}", o.beta1, o.beta2, o.epsilon);
  }
  throw std::logic_error("an optimizer without a description");
}

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
  return fmt::format("{} lr={} {} weight_decay={}{}", name_of(o.kind), o.learning_rate, describe_kind(o),
                     o.weight_decay, describe_more(o));
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
  switch (options.kind) {
    case OptimizerKind::sgd:
      return kernel_of(sgd_update(options));
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      return kernel_of(adam_update(options));
  }
  throw std::logic_error("an optimizer without an update");
}

kernels::BeginStep begin_step(const OptimizerOptions& o) {
  kernels::BeginStep begin{.schedule = o.schedule};
  switch (o.kind) {
    case OptimizerKind::sgd:
      break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      begin.beta1 = o.beta1;
      begin.beta2 = o.beta2;
      break;
  }
  return begin;
}

}  // namespace lockstep::model
