#include "kernels/reorder.h"

#include "kernels/cpu/onednn_op.h"

namespace lockstep::kernels {

void choose_layouts(Cpu, const Reorder&, KernelIo& io) {
  keep_layouts(io);
}

KernelPtr prepare(Cpu cpu, const Reorder&, const KernelIo& io) {
  return onednn_copy(cpu.onednn, Reorder::name, io);
}

}  // namespace lockstep::kernels
