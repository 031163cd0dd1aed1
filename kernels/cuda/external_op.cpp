#include "kernels/external_op.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

KernelPtr prepare(Cuda, const ExternalOp& op, const KernelIo&) {
  throw UsageError(fmt::format("op '{}' of plugin '{}' has no CUDA kernel; train with --device cpu",
                               op.rules->name(), op.rules->plugin()));
}

}  // namespace lockstep::kernels
