#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// The first kernel of a step. inputs StepInput; outputs StepState and ControlBlock, which until then hold
/// what the step before left in them.
///
/// StepState::step counts the updates that were applied, with this step's: one that was skipped does not
/// count, and in evaluation (`updates` is false) there is none. Adam's bias corrections are made of it in
/// double, as PyTorch's are.
struct BeginStep {
  bool updates = true;
  double beta1 = 0;  ///< Adam's; 0: no correction
  double beta2 = 0;
};

KernelPtr prepare(Cpu, const BeginStep&, const KernelIo& io);

KernelPtr prepare(Cuda, const BeginStep&, const KernelIo& io);

}  // namespace lockstep::kernels
