#include "kernels/external_op.h"

#include "kernels/base/rethrow.h"
#include "kernels/cpu/cpu_kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cpu, const ExternalOp& op, const KernelIo& io) {
  const std::string whose = op.whose();
  ExternalKernel kernel;
  try {
    kernel = op.rules->cpu_kernel(io);
  } catch (...) {
    rethrow_as<UsageError>(whose);
  }
  if (!kernel.run) throw UsageError(whose + ": its cpu_kernel gives nothing to run");
  const auto run = [run = std::move(kernel.run), whose = "run of " + whose](const Addresses& addresses) {
    try {
      run(addresses);
    } catch (...) {
      rethrow_as<UsageError>(whose);
    }
  };
  return cpu_kernel(io, run, kernel.workspace_bytes);
}

}  // namespace lockstep::kernels
