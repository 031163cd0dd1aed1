#pragma once

#include "kernels/kernel.h"
#include "kernels/layout.h"

namespace lockstep::kernels {

/// A reorder between layouts without blocks, or nothing where numbers of 31 bits are too small.
KernelPtr strided_reorder_kernel(const KernelIo& io);

}  // namespace lockstep::kernels
