#pragma once

#include <cmath>

#include "kernels/begin_step.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {

/// What BeginStep does, once for CPU and GPU.
struct StepBeginning {
  /// A later micro-batch of the same step.
  LOCKSTEP_INLINE static void resume(const StepInput& input, StepState& state, ControlBlock& control) {
    state.valid_samples = input.state.valid_samples;
    state.first_sample = input.state.first_sample;
    control.next_targets = input.control.next_targets;
    control.stop_requests = input.control.stop_requests;
  }

  /// `state` and `control` hold what the step before has left there. `input` is no part of them.
  LOCKSTEP_INLINE static void begin(const BeginStep& op, const StepInput& input, StepState& state,
                                    ControlBlock& control) {
    if (op.continues) return resume(input, state, control);
    StepState next = input.state;
    const std::int64_t applied = state.applied_updates();
    next.step = applied + op.updates;
    next.learning_rate = op.schedule.rate(next.learning_rate, applied, next.epoch);
    next.scaler_scale = state.scaler_scale == 0 ? static_cast<float>(op.initial_scale) : state.scaler_scale;
    next.carried_scale = next.scaler_scale;
    next.growth_tracker = state.growth_tracker;
    const auto power = static_cast<double>(next.step);
    next.bias_correction1 = 1 - std::pow(op.beta1, power);
    next.bias_correction2_sqrt = std::sqrt(1 - std::pow(op.beta2, power));
    if (next.loss_scale == 0) next.loss_scale = loss_scale_for(static_cast<double>(control.next_targets));
    state = next;
    control = input.control;
    control.learning_rate *= static_cast<float>(next.learning_rate);
  }
};

}  // namespace lockstep::kernels
