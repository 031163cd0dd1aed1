#include "kernels/begin_step.h"

#include <cmath>

#include "kernels/cpu/cpu_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep& op, const KernelIo& io) {
  return cpu_kernel(io, [op](const Addresses& a) {
    const auto& input = *a.in<StepInput>(BeginStep::input);
    auto& state = *a.out<StepState>(BeginStep::state);
    auto& control = *a.out<ControlBlock>(BeginStep::control);
    if (op.continues) {
      state.valid_samples = input.state.valid_samples;
      state.first_sample = input.state.first_sample;
      control.next_targets = input.control.next_targets;
      control.stop_requests = input.control.stop_requests;
      return;
    }
    const std::int64_t applied = state.applied_updates();
    const std::int64_t step = applied + op.updates;
    const auto power = static_cast<double>(step);
    const float scale = state.scaler_scale == 0 ? static_cast<float>(op.initial_scale) : state.scaler_scale;
    const std::int32_t growth_tracker = state.growth_tracker;
    state = input.state;
    state.step = step;
    state.learning_rate = op.schedule.rate(input.state.learning_rate, applied, input.state.epoch);
    state.scaler_scale = scale;
    state.carried_scale = scale;
    state.growth_tracker = growth_tracker;
    state.bias_correction1 = 1 - std::pow(op.beta1, power);
    state.bias_correction2_sqrt = std::sqrt(1 - std::pow(op.beta2, power));
    if (state.loss_scale == 0) state.loss_scale = loss_scale_for(control.next_targets);
    control = input.control;
    control.learning_rate *= static_cast<float>(state.learning_rate);
  });
}

}  // namespace lockstep::kernels
