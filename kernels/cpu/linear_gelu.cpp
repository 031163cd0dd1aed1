#include "kernels/linear_gelu.h"

#include "kernels/linear_gelu_apart.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const Linear&, const KernelIo&);
KernelPtr prepare(Cpu, const LinearBackwardData&, const KernelIo&);
KernelPtr prepare(Cpu, const Pointwise&, const KernelIo&);

void choose_layouts(Cpu, const LinearGelu&, KernelIo& io) {
  all_row_major(io);
}
void choose_layouts(Cpu, const LinearBackwardGelu&, KernelIo& io) {
  all_row_major(io);
}

// oneDNN's products end in no function whose input they keep.
KernelPtr prepare(Cpu cpu, const LinearGelu& op, const KernelIo& io) {
  return linear_gelu_apart(cpu, op, io);
}

KernelPtr prepare(Cpu cpu, const LinearBackwardGelu& op, const KernelIo& io) {
  return linear_backward_gelu_apart(cpu, op, io);
}

std::vector<Algorithm> algorithms(Cpu, const LinearGelu&, const KernelIo&) {
  return {};
}
std::vector<Algorithm> algorithms(Cpu, const LinearBackwardGelu&, const KernelIo&) {
  return {};
}

}  // namespace lockstep::kernels
