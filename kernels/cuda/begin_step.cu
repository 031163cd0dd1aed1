#include "kernels/begin_step.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {
namespace {

__global__ void begin_step(const StepInput* input, StepState* state, ControlBlock* control) {
  StepState next = input->state;
  if (next.loss_scale == 0) next.loss_scale = static_cast<float>(1.0 / control->next_targets);
  *state = next;
  *control = input->control;
}

}  // namespace

KernelPtr prepare(Cuda, const BeginStep&, const KernelIo& io) {
  using Op = BeginStep;
  return cuda_kernel(io, [](const Addresses& a, cudaStream_t stream) {
    launch(begin_step, 1, 1, 0, stream, a.in<StepInput>(Op::input), a.out<StepState>(Op::state),
           a.out<ControlBlock>(Op::control));
  });
}

}  // namespace lockstep::kernels
