#include "runtime/run/training_progress.h"

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {

TrainingProgress TrainingProgress::of(const RunState& state) {
  return {.step = state.step,
          .epoch = state.epoch_samples == 0 ? state.epoch - 1 : state.epoch,
          .next_epoch = state.epoch,
          .epoch_samples = state.epoch_samples,
          .samples = state.samples,
          .loss = state.loss,
          .evaluated_at_step = state.evaluated_at_step};
}

RunState TrainingProgress::state() const {
  return {.step = step,
          .epoch = next_epoch,
          .epoch_samples = epoch_samples,
          .samples = samples,
          .applied_updates = 0,
          .loss = loss,
          .evaluated_at_step = evaluated_at_step,
          .settings = {},
          .machine = {},
          .algorithms = {}};
}

std::int64_t TrainingProgress::next_batch(std::int64_t global_batch) const {
  if (epoch_samples % global_batch != 0) {
    throw DataError(fmt::format("{} samples of epoch {} are done: no whole number of steps of {} samples",
                                epoch_samples, next_epoch + 1, global_batch));
  }
  return epoch_samples / global_batch;
}

void TrainingProgress::advance(const data::BatchInfo& batch, std::int64_t global_samples,
                               const kernels::ControlBlock& control) {
  ++step;
  epoch = batch.epoch;
  next_epoch = batch.last_of_epoch ? batch.epoch + 1 : batch.epoch;
  epoch_samples = batch.last_of_epoch ? 0 : epoch_samples + global_samples;
  samples += global_samples;
  loss = control.loss;
  gradient_norm = control.gradient_norm;
  not_finite = control.not_finite > 0;
  stopped |= control.stop_requests > 0;
}

bool TrainingProgress::ends_evaluated_epoch(std::int64_t eval_every) const {
  return step > 0 && epoch_samples == 0 && eval_every > 0 && next_epoch % eval_every == 0;
}

bool TrainingProgress::ends_evaluated_epoch(const data::BatchInfo& batch, std::int64_t eval_every) {
  return batch.last_of_epoch && eval_every > 0 && (batch.epoch + 1) % eval_every == 0;
}

}  // namespace lockstep::runtime
