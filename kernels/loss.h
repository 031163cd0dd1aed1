#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// Losses compute their own gradient in the same pass. Rows from StepState::valid_samples on are padding: no
/// loss, gradient zero. The sum of the valid rows' losses, times StepState::loss_scale, is added to
/// ControlBlock::loss, with `correct`, `targets` and `not_finite`; the gradient is scaled alike. Rows are
/// summed in a fixed order.

/// inputs logits (N, K) f32, targets (N) i64, StepState; outputs dlogits (N, K), ControlBlock.
/// A target outside [0, K), except -100 (ignored, as in PyTorch), makes the loss not a number.
/// Smoothing as in PyTorch: the target distribution is (1 - s) one-hot + s / K.
struct SoftmaxCrossEntropy {
  float label_smoothing = 0;
};

/// Mean over the features of a row, then rows as above. inputs y (N, D), targets (N, D) f32, StepState;
/// outputs dy, ControlBlock.
struct MeanSquaredError {};

/// The same without a gradient, for evaluation: outputs ControlBlock only.
struct SoftmaxCrossEntropyEval {};
struct MeanSquaredErrorEval {};

KernelPtr prepare(Cpu, const SoftmaxCrossEntropy&, const KernelIo& io);
KernelPtr prepare(Cpu, const MeanSquaredError&, const KernelIo& io);
KernelPtr prepare(Cpu, const SoftmaxCrossEntropyEval&, const KernelIo& io);
KernelPtr prepare(Cpu, const MeanSquaredErrorEval&, const KernelIo& io);

KernelPtr prepare(Cuda, const SoftmaxCrossEntropy&, const KernelIo& io);
KernelPtr prepare(Cuda, const MeanSquaredError&, const KernelIo& io);
KernelPtr prepare(Cuda, const SoftmaxCrossEntropyEval&, const KernelIo& io);
KernelPtr prepare(Cuda, const MeanSquaredErrorEval&, const KernelIo& io);

}  // namespace lockstep::kernels
