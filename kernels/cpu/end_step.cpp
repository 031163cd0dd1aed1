#include "kernels/end_step.h"

#include "kernels/cpu/cpu_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const EndStep&, const KernelIo& io) {
  return cpu_kernel(io, [](const Addresses& a) {
    *a.out<ControlBlock>(EndStep::result) = *a.in<ControlBlock>(EndStep::control);
  });
}

}  // namespace lockstep::kernels
