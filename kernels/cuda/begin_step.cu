#include "kernels/begin_step.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/step_beginning.h"

namespace lockstep::kernels {
namespace {

__global__ void begin_step(BeginStep op, const StepInput* host, StepState* state, ControlBlock* control) {
  const StepInput input = *host;  // at once: a load from the host's memory takes a microsecond
  StepBeginning::begin(op, input, *state, *control);
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
