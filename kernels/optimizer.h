#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// Updates of a flat slice, whatever tensors lie in it. PyTorch's formulas and order of operations. Zero
/// padding stays zero. The learning rate, bias corrections and gradient_scale, by which each gradient is
/// multiplied first, come from StepState.

/// inputs gradient, StepState; outputs parameter, [momentum buffer if momentum != 0].
/// The buffer starts as a copy of the first gradient (StepState::step == 1).
struct SgdUpdate {
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// inputs gradient, StepState; outputs parameter, exp_avg, exp_avg_sq. `decoupled` is AdamW.
struct AdamUpdate {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
};

KernelPtr prepare(Cpu, const SgdUpdate&, const KernelIo& io);
KernelPtr prepare(Cpu, const AdamUpdate&, const KernelIo& io);

KernelPtr prepare(Cuda, const SgdUpdate&, const KernelIo& io);
KernelPtr prepare(Cuda, const AdamUpdate&, const KernelIo& io);

}  // namespace lockstep::kernels
