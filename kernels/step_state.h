#pragma once

#include <cstdint>

#include "kernels/layout.h"

namespace lockstep::kernels {

/// What changes from step to step. It lives in device memory and kernels read it there, so that a bound
/// kernel (on a GPU: a captured graph) never goes stale.
struct alignas(64) StepState {
  std::int64_t step = 0;        ///< updates that were applied, and this one: 1 in the first; set by BeginStep
  double learning_rate = 0;     ///< the base's from the host; set to the schedule's by BeginStep
  double bias_correction1 = 1;  ///< Adam: 1 - beta1^step; set by BeginStep, as is the next
  double bias_correction2_sqrt = 1;  ///< Adam: sqrt(1 - beta2^step)
  float loss_scale = 1;              ///< 1 / valid targets of the global batch: applied to loss and dloss
  float gradient_scale = 1;        ///< the update multiplies gradients by it: GradientNorm clips, unscales so
  std::int32_t valid_samples = 0;  ///< rows of the micro-batch that are no padding (they come first)
  std::uint32_t skip_update = 0;   ///< not 0: the optimizer leaves everything as it is
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;        ///< of the batch, counted from 0
  std::int64_t global_step = 0;  ///< of the run, skipped updates counted: random numbers of a step follow it
  /// Row i of the micro-batch is sample first_sample + i * sample_stride of the step's global batch.
  std::int64_t first_sample = 0;
  std::int64_t sample_stride = 1;
  /// GradScaler's, which the device carries from step to step: what dloss is multiplied by beside loss_scale,
  /// and the steps since it changed. 0: not begun; BeginStep sets it.
  float scaler_scale = 1;
  std::int32_t growth_tracker = 0;
  float carried_scale = 1;  ///< scaler_scale as it was when this step began: its gradients carry it

  /// Behind the step.
  constexpr std::int64_t applied_updates() const { return step - (skip_update != 0 ? 1 : 0); }
};

/// Summed over all ranks with the last bucket: how the ranks learn the same things in the same step.
/// Zeroed before each step; the loss kernel adds to it, once in each of the step's micro-batches.
struct alignas(64) ControlBlock {
  float loss = 0;              ///< sum of the targets' losses x loss_scale: after the sum, the global mean
  float correct = 0;           ///< targets that are the arg max
  float top5 = 0;              ///< targets that are among the five greatest
  float targets = 0;           ///< valid targets of this step
  float next_targets = 0;      ///< valid targets of the next step's batch
  float not_finite = 0;        ///< ranks whose loss is not finite; 1 if only the gradients' norm is not
  float rank = 0;              ///< from the host, for the next; its sum means nothing
  float not_finite_ranks = 0;  ///< sum of the numbers of the ranks whose loss is not finite
  float stop_requests = 0;     ///< ranks that were asked to stop
  float gradient_norm = 0;     ///< of the summed gradients before clipping; no sum, the same on all ranks
  float learning_rate = 0;     ///< from the host 1 on rank 0, else 0; BeginStep multiplies it by the rate
  float scaler_scale = 0;      ///< StepState::carried_scale, set by GradientNorm; no sum
  float samples = 0;           ///< from the host: this step's, without padding
  float exchange_share = 0;    ///< from the host: of backward, that an exchange takes
  float reserved[2] = {};

  static constexpr DType dtype = DType::f32;
  static constexpr std::int64_t elements = 16;
};
static_assert(sizeof(ControlBlock) == ControlBlock::elements * sizeof(float));

/// What the host says of a step before it runs, in memory of its own that the device reads. The step's number
/// and what follows from it are counted on the device; a loss scale of 0 stands for what the ranks summed in
/// the step before: `loss_scale_for(ControlBlock::next_targets)`. So a step can be launched before the host
/// knows the last one's end.
struct StepInput {
  StepState state;
  ControlBlock control;
};

/// A step in which no target counts has a loss of 0 and gradients of 0, whatever their scale.
constexpr float loss_scale_for(double targets) {
  return static_cast<float>(1.0 / (targets > 1 ? targets : 1.0));
}

/// How a graph sees them: as bytes.
inline TensorType step_state_type() {
  return {DType::u8, {sizeof(StepState)}};
}
inline TensorType step_input_type() {
  return {DType::u8, {sizeof(StepInput)}};
}
inline TensorType control_type() {
  return {DType::u8, {sizeof(ControlBlock)}};
}

}  // namespace lockstep::kernels
