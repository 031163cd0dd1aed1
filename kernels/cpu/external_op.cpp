#include "kernels/external_op.h"

#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const ExternalOp& op, const KernelIo& io) {
  ExternalKernel kernel = op.rules->cpu_kernel(io);
  return simd_kernel(io, std::move(kernel.run), kernel.workspace_bytes);
}

}  // namespace lockstep::kernels
