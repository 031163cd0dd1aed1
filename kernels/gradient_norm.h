#pragma once

#include "kernels/device.h"
#include "kernels/kernel.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// torch.nn.utils.clip_grad_norm_ with the 2-norm, but for the product with the factor, which the update
/// takes: inputs gradients (flat, f32, zero padding); outputs StepState, ControlBlock. Sets
/// StepState::gradient_scale = min(1, max_norm / (norm + 1e-6)) and ControlBlock::gradient_norm. A norm that
/// is not finite skips the update and counts in ControlBlock::not_finite.
///
/// Squares of f32 are exact in double and sums of them cannot overflow there, so the norm is finite if all
/// gradients are. Sums of `gradient_norm_chunk` elements lie in the workspace and are added in their order:
/// the same bits in every run, whatever the team.
struct GradientNorm {
  double max_norm = 0;
};

inline constexpr std::int64_t gradient_norm_chunk = 8192;

KernelPtr prepare(Cpu, const GradientNorm&, const KernelIo& io);

KernelPtr prepare(Cuda, const GradientNorm&, const KernelIo& io);

}  // namespace lockstep::kernels
