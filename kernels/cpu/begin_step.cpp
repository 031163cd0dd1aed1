#include "kernels/begin_step.h"

#include <cmath>

#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep& op, const KernelIo& io) {
  return simd_kernel(io, [op](const Addresses& a) {
    const auto& input = *a.in<StepInput>(BeginStep::input);
    auto& state = *a.out<StepState>(BeginStep::state);
    auto& control = *a.out<ControlBlock>(BeginStep::control);
    const std::int64_t step = state.applied_updates() + op.updates;
    const auto power = static_cast<double>(step);
    state = input.state;
    state.step = step;
    state.bias_correction1 = 1 - std::pow(op.beta1, power);
    state.bias_correction2_sqrt = std::sqrt(1 - std::pow(op.beta2, power));
    if (state.loss_scale == 0) state.loss_scale = static_cast<float>(1.0 / control.next_targets);
    control = input.control;
  });
}

}  // namespace lockstep::kernels
