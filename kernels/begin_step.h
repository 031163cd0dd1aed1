#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// The first kernel of a training step. inputs StepInput; outputs StepState, ControlBlock, which holds the
/// sums of the step before until then.
struct BeginStep {};

KernelPtr prepare(Cpu, const BeginStep&, const KernelIo& io);

KernelPtr prepare(Cuda, const BeginStep&, const KernelIo& io);

}  // namespace lockstep::kernels
