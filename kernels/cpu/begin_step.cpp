#include "kernels/begin_step.h"

#include "kernels/cpu/loop_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep&, const KernelIo& io) {
  return loop_kernel(io, [](const Addresses& a) {
    const auto& input = *a.in<StepInput>(BeginStep::input);
    auto& state = *a.out<StepState>(BeginStep::state);
    auto& control = *a.out<ControlBlock>(BeginStep::control);
    state = input.state;
    if (state.loss_scale == 0) state.loss_scale = static_cast<float>(1.0 / control.next_targets);
    control = input.control;
  });
}

}  // namespace lockstep::kernels
