#include "kernels/begin_step.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"

namespace lockstep::kernels {
namespace {

__global__ void begin_step(BeginStep op, const StepInput* host, StepState* state, ControlBlock* control) {
  const StepInput input = *host;  // at once: a load from the host's memory takes a microsecond
  if (op.continues) {
    state->valid_samples = input.state.valid_samples;
    state->first_sample = input.state.first_sample;
    control->next_targets = input.control.next_targets;
    control->stop_requests = input.control.stop_requests;
    return;
  }
  StepState next = input.state;
  const std::int64_t applied = state->step - (state->skip_update != 0 ? 1 : 0);
  next.step = applied + op.updates;
  next.learning_rate = op.schedule.rate(next.learning_rate, applied, next.epoch);
  next.scaler_scale = state->scaler_scale == 0 ? static_cast<float>(op.initial_scale) : state->scaler_scale;
  next.carried_scale = next.scaler_scale;
  next.growth_tracker = state->growth_tracker;
  const auto power = static_cast<double>(next.step);
  next.bias_correction1 = 1 - pow(op.beta1, power);
  next.bias_correction2_sqrt = sqrt(1 - pow(op.beta2, power));
  if (next.loss_scale == 0) next.loss_scale = static_cast<float>(1.0 / fmaxf(control->next_targets, 1.0F));
  *state = next;
  *control = input.control;
  control->learning_rate *= static_cast<float>(next.learning_rate);
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
