#include "runtime/run_position.h"

namespace lockstep::runtime {

RunPosition RunPosition::of(const RunState& state) {
  return {.step = state.step,
          .epoch = state.batch == 0 ? state.epoch - 1 : state.epoch,
          .next_epoch = state.epoch,
          .next_batch = state.batch,
          .samples = state.samples,
          .loss = state.loss,
          .evaluated_at_step = state.evaluated_at_step};
}

RunState RunPosition::state() const {
  return {.step = step,
          .epoch = next_epoch,
          .batch = next_batch,
          .samples = samples,
          .applied_updates = 0,
          .loss = loss,
          .evaluated_at_step = evaluated_at_step,
          .settings = {},
          .machine = {},
          .algorithms = {}};
}

void RunPosition::advance(const data::BatchInfo& batch, std::int64_t global_samples,
                          const kernels::ControlBlock& control) {
  ++step;
  epoch = batch.epoch;
  next_epoch = batch.last_of_epoch ? batch.epoch + 1 : batch.epoch;
  next_batch = batch.last_of_epoch ? 0 : batch.index + 1;
  samples += global_samples;
  loss = control.loss;
  gradient_norm = control.gradient_norm;
  not_finite = control.not_finite > 0;
  stopped |= control.stop_requests > 0;
}

bool RunPosition::ends_evaluated_epoch(std::int64_t eval_every) const {
  return step > 0 && next_batch == 0 && eval_every > 0 && next_epoch % eval_every == 0;
}

bool RunPosition::ends_evaluated_epoch(const data::BatchInfo& batch, std::int64_t eval_every) {
  return batch.last_of_epoch && eval_every > 0 && (batch.epoch + 1) % eval_every == 0;
}

}  // namespace lockstep::runtime
