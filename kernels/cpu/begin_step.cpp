#include "kernels/begin_step.h"

#include "kernels/cpu/loop_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep&, const KernelIo&) {
  return loop_kernel([](const Addresses& a) {
    const auto& input = *a.at<StepInput>(0);
    auto& state = *a.at<StepState>(1);
    auto& control = *a.at<ControlBlock>(2);
    state = input.state;
    if (state.loss_scale == 0) state.loss_scale = static_cast<float>(1.0 / control.next_targets);
    control = input.control;
  });
}

}  // namespace lockstep::kernels
