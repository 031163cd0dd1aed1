#include "kernels/begin_step.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {
namespace {

__global__ void begin_step(BeginStep spec, const StepInput* input, StepState* state, ControlBlock* control) {
  StepState next = input->state;
  next.step = state->step - (state->skip_update != 0 ? 1 : 0) + (spec.updates ? 1 : 0);
  const auto power = static_cast<double>(next.step);
  next.bias_correction1 = static_cast<float>(1 - pow(spec.beta1, power));
  next.bias_correction2_sqrt = static_cast<float>(sqrt(1 - pow(spec.beta2, power)));
  if (next.loss_scale == 0) next.loss_scale = static_cast<float>(1.0 / control->next_targets);
  *state = next;
  *control = input->control;
}

}  // namespace

KernelPtr prepare(Cuda, const BeginStep& spec, const KernelIo&) {
  return cuda_kernel([spec](const Addresses& a, cudaStream_t stream) {
    launch(begin_step, 1, 1, 0, stream, spec, a.at<StepInput>(0), a.at<StepState>(1), a.at<ControlBlock>(2));
  });
}

}  // namespace lockstep::kernels
