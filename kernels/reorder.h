#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// inputs x; outputs y: the same shape and values in another layout. Padding of y is written as zero.
struct Reorder {};

KernelPtr prepare(Cpu, const Reorder&, const KernelIo& io);

KernelPtr prepare(Cuda, const Reorder&, const KernelIo& io);

}  // namespace lockstep::kernels
