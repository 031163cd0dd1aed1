#include "runtime/run/batching.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/division.h"
#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

/// In which a rank takes so many samples.
std::int64_t steps_for(std::int64_t samples, const Batching& batching) {
  return parts_of(samples, batching.step_samples());
}

/// `by_epochs`: those that --epochs gives; 0 without it.
void set_steps(Batching& batching, const Options& options, std::int64_t by_epochs) {
  batching.schedule_steps = options.max_steps > 0 ? options.max_steps : by_epochs;
  batching.total_steps =
      by_epochs > 0 ? std::min(by_epochs, batching.schedule_steps) : batching.schedule_steps;
}

}  // namespace

data::DistributedSampler sampler_for(const Options& options, const comm::World& world, std::int64_t samples) {
  return {.samples = samples,
          .replicas = world.size,
          .rank = world.rank,
          .shuffle = !options.no_shuffle,
          .seed = options.seed,
          .drop_last = options.drop_last};
}

Batching batching_of(const Options& options, const comm::World& world, std::int64_t samples) {
  const std::int64_t wanted = batch_size_per_rank(options, world.size);
  const std::int64_t wanted_of_a_step = wanted * options.accumulate_steps;
  std::int64_t epoch_samples = sampler_for(options, world, samples).size();
  if (options.drop_last) epoch_samples -= epoch_samples % wanted_of_a_step;
  if (epoch_samples < 1) {
    const std::string accumulated =
        options.accumulate_steps == 1
            ? ""
            : fmt::format(" or fewer than {} --accumulate-steps", options.accumulate_steps);
    throw UsageError(
        fmt::format("{} samples do not give each of {} ranks the {} of a step: take a smaller --batch-size{}",
                    samples, world.size, wanted_of_a_step, accumulated));
  }
  Batching batching{.batch_size = std::min(wanted, epoch_samples),
                    .micro_batches = options.accumulate_steps,
                    .epoch_samples = epoch_samples};
  set_steps(batching, options, options.epochs * steps_for(epoch_samples, batching));
  return batching;
}

void resume_batching(Batching& batching, const Options& options, const data::DistributedSampler& sampler,
                     TrainingProgress& progress) {
  if (progress.dealt_from > 0) {
    const std::int64_t samples = sampler.rest_size(progress.dealt_from);
    batching.rest_epoch = progress.next_epoch;
    batching.rest = {samples, sampler.rest(progress.next_epoch, progress.dealt_from).padding};
    if (options.drop_last) batching.rest.samples -= samples % batching.step_samples();
    if (batching.rest.samples == 0) {
      progress.drop_rest();
      batching.rest_epoch = -1;
    }
  }
  if (options.epochs == 0) return;
  const bool within_epoch = progress.epoch_samples > 0;
  const std::int64_t in_epoch = steps_for(batching.in_epoch(progress.next_epoch).samples, batching);
  const std::int64_t left =
      within_epoch ? in_epoch - progress.next_batch(batching.step_samples() * sampler.replicas) : 0;
  const std::int64_t whole_epochs = options.epochs - progress.next_epoch - (within_epoch ? 1 : 0);
  set_steps(batching, options,
            progress.step + left + whole_epochs * steps_for(batching.epoch_samples, batching));
}

std::string warm_up_to_the_end(const model::OptimizerOptions& optimizer, const Batching& batching) {
  const std::int64_t steps = optimizer.schedule.warmup_steps;
  if (steps == 0 || steps < batching.total_steps) return {};
  return fmt::format("--warmup-steps {} leaves none of {} steps with the full rate", steps,
                     batching.total_steps);
}

void require_schedule(const Options& options, const Batching& batching, bool resumes) {
  const model::OptimizerOptions& optimizer = options.optimizer;
  const kernels::LearningRateSchedule& schedule = optimizer.schedule;
  if (schedule.least > optimizer.learning_rate) {
    throw UsageError(fmt::format("--lr-min {} is above --lr {}", schedule.least, optimizer.learning_rate));
  }
  const std::string misfit = warm_up_to_the_end(optimizer, batching);
  const bool is_asked_for = options.max_steps > 0 && options.max_steps <= schedule.warmup_steps;
  if ((!resumes || is_asked_for) && !misfit.empty())
    throw UsageError(misfit + ": give fewer, or more --epochs or --max-steps");
}

MicroBatch Batching::micro_batch(std::int64_t index, const EpochSize& epoch) const {
  const std::int64_t in_step = index % micro_batches;
  const std::int64_t step_begin = (index - in_step) * batch_size;
  const std::int64_t of_step = std::min(step_samples(), epoch.samples - step_begin);
  const bool ends_epoch = step_begin + of_step == epoch.samples;
  MicroBatch micro_batch{.first_sample = in_step * batch_size,
                         .step_samples = of_step - (ends_epoch ? epoch.padding : 0)};
  const std::int64_t left = of_step - micro_batch.first_sample;
  micro_batch.samples = std::min(batch_size, left);
  const bool is_first = in_step == 0;
  const bool is_last = left <= batch_size;
  micro_batch.role = is_first ? (is_last ? MicroBatchRole::only : MicroBatchRole::first)
                              : (is_last ? MicroBatchRole::last : MicroBatchRole::middle);
  return micro_batch;
}

}  // namespace lockstep::runtime
