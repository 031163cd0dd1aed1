#include "kernels/begin_step.h"

#include <cmath>

#include "kernels/cpu/loop_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep& spec, const KernelIo&) {
  return loop_kernel([spec](const Addresses& a) {
    const auto& input = *a.at<StepInput>(0);
    auto& state = *a.at<StepState>(1);
    auto& control = *a.at<ControlBlock>(2);
    const std::int64_t step = state.applied_updates() + (spec.updates ? 1 : 0);
    const auto power = static_cast<double>(step);
    state = input.state;
    state.step = step;
    state.bias_correction1 = static_cast<float>(1 - std::pow(spec.beta1, power));
    state.bias_correction2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(spec.beta2, power)));
    if (state.loss_scale == 0) state.loss_scale = static_cast<float>(1.0 / control.next_targets);
    control = input.control;
  });
}

}  // namespace lockstep::kernels
