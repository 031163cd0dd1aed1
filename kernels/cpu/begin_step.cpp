#include "kernels/begin_step.h"

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/step_beginning.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const BeginStep& op, const KernelIo& io) {
  using Op = BeginStep;
  return cpu_kernel(io, [op](const Addresses& a) {
    StepBeginning::begin(op, *a.in<StepInput>(Op::input), *a.out<StepState>(Op::state),
                         *a.out<ControlBlock>(Op::control));
  });
}

}  // namespace lockstep::kernels
