#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace lockstep::kernels {

/// All tensors of one shape and one layout; an output may lie over an input.

/// inputs x; outputs y = max(x, 0).
struct ReluForward {};

/// inputs y, dy; outputs dx = dy where y > 0, else 0.
struct ReluBackward {};

/// inputs a, b; outputs a + b.
struct Add {};

KernelPtr prepare(Cpu, const ReluForward&, const KernelIo& io);
KernelPtr prepare(Cpu, const ReluBackward&, const KernelIo& io);
KernelPtr prepare(Cpu, const Add&, const KernelIo& io);

KernelPtr prepare(Cuda, const ReluForward&, const KernelIo& io);
KernelPtr prepare(Cuda, const ReluBackward&, const KernelIo& io);
KernelPtr prepare(Cuda, const Add&, const KernelIo& io);

}  // namespace lockstep::kernels
