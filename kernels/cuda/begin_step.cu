#include "kernels/begin_step.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {
namespace {

__global__ void begin_step(BeginStep op, const StepInput* input, StepState* state, ControlBlock* control) {
  StepState next = input->state;
  next.step = state->step - (state->skip_update != 0 ? 1 : 0) + op.updates;
  const auto power = static_cast<double>(next.step);
  next.bias_correction1 = 1 - pow(op.beta1, power);
  next.bias_correction2_sqrt = sqrt(1 - pow(op.beta2, power));
  if (next.loss_scale == 0) next.loss_scale = static_cast<float>(1.0 / control->next_targets);
  *state = next;
  *control = input->control;
}

}  // namespace

KernelPtr prepare(Cuda, const BeginStep& op, const KernelIo& io) {
  using Op = BeginStep;
  return cuda_kernel(io, [op](const Addresses& a, cudaStream_t stream) {
    launch(begin_step, 1, 1, 0, stream, op, a.in<StepInput>(Op::input), a.out<StepState>(Op::state),
           a.out<ControlBlock>(Op::control));
  });
}

}  // namespace lockstep::kernels
