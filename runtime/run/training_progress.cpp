#include "runtime/run/training_progress.h"

#include <string>

#include <fmt/format.h>

#include "kernels/base/error.h"

namespace lockstep::runtime {

namespace {

/// 0.1 of 0.1F, not 0.10000000149: what the control block had room for, as a person would write it.
double shortest_decimal(float value) {
  return std::stod(fmt::format("{}", value));
}

}  // namespace

TrainingProgress TrainingProgress::of(const RunState& state) {
  return {.step = state.step,
          .epoch = state.epoch_samples == 0 ? state.epoch - 1 : state.epoch,
          .next_epoch = state.epoch,
          .epoch_samples = state.epoch_samples,
          .dealt_from = state.dealt_from,
          .samples = state.samples,
          .loss = state.loss,
          .evaluated_at_step = state.evaluated_at_step};
}

RunState TrainingProgress::state() const {
  return {.step = step,
          .epoch = next_epoch,
          .epoch_samples = epoch_samples,
          .dealt_from = dealt_from,
          .samples = samples,
          .applied_updates = 0,
          .grad_scaler = {},
          .schedule_steps = 0,
          .loss = loss,
          .evaluated_at_step = evaluated_at_step,
          .settings = {},
          .machine = {},
          .algorithms = {}};
}

std::int64_t TrainingProgress::next_batch(std::int64_t global_batch) const {
  const std::int64_t done = epoch_samples - dealt_from;
  if (done % global_batch != 0) {
    throw DataError(fmt::format("{} samples of epoch {} are done: no whole number of steps of {} samples",
                                done, next_epoch + 1, global_batch));
  }
  return done / global_batch;
}

void TrainingProgress::drop_rest() {
  ++next_epoch;
  epoch_samples = 0;
  dealt_from = 0;
}

void TrainingProgress::advance(const data::BatchInfo& batch, std::int64_t global_samples,
                               const kernels::ControlBlock& control) {
  ++step;
  epoch = batch.epoch;
  next_epoch = batch.last_of_epoch ? batch.epoch + 1 : batch.epoch;
  epoch_samples = batch.last_of_epoch ? 0 : epoch_samples + global_samples;
  if (batch.last_of_epoch) dealt_from = 0;
  samples += global_samples;
  loss = control.loss;
  gradient_norm = control.gradient_norm;
  learning_rate = shortest_decimal(control.learning_rate);
  scaler_scale = control.scaler_scale;
  not_finite = static_cast<int>(control.not_finite);
  not_finite_rank = static_cast<int>(control.not_finite_ranks);
  stopped |= control.stop_requests > 0;
}

bool TrainingProgress::ends_evaluated_epoch(std::int64_t eval_every) const {
  return step > 0 && epoch_samples == 0 && eval_every > 0 && next_epoch % eval_every == 0;
}

bool TrainingProgress::ends_evaluated_epoch(const data::BatchInfo& batch, std::int64_t eval_every) {
  return batch.last_of_epoch && eval_every > 0 && (batch.epoch + 1) % eval_every == 0;
}

}  // namespace lockstep::runtime
