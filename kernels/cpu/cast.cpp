#include "kernels/cast.h"

#include "kernels/cpu/onednn_op.h"

namespace lockstep::kernels {

void choose_layouts(Cpu, const Cast&, KernelIo& io) {
  choose_cast_layouts(io);
}

KernelPtr prepare(Cpu cpu, const Cast&, const KernelIo& io) {
  return onednn_copy(cpu.onednn, Cast::name, io);
}

}  // namespace lockstep::kernels
