#pragma once

#include <cstdint>
#include <string>

#include "comm/world/world.h"
#include "data/sampler.h"
#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/run/training_progress.h"

namespace lockstep::runtime {

/// The training samples of this rank.
data::DistributedSampler sampler_for(const Options& options, const comm::World& world, std::int64_t samples);

/// A micro-batch in its step. Counts are of this rank's samples.
struct MicroBatch {
  MicroBatchRole role = MicroBatchRole::only;
  std::int64_t samples = 0;
  std::int64_t first_sample = 0;  ///< in the step
  std::int64_t step_samples = 0;  ///< of the whole step, without padding

  PlanKey key(std::int64_t length = 0) const {
    return {.mode = Mode::train, .role = role, .batch = samples, .length = length};
  }
};

/// A rank's samples in an epoch, of which the last `padding` only fill its last step.
struct EpochSize {
  std::int64_t samples = 0;
  std::int64_t padding = 0;
};

/// How the samples of a run are cut into steps and micro-batches; equal on all ranks. An epoch's last step
/// has what is left: fewer micro-batches, and a smaller last one.
struct Batching {
  std::int64_t batch_size = 0;      ///< of each rank, in a full micro-batch
  std::int64_t micro_batches = 1;   ///< of a full step
  std::int64_t epoch_samples = 0;   ///< of each rank; with --drop-last those of full steps
  EpochSize rest;                   ///< of the epoch whose rest is dealt anew, to other ranks than began it
  std::int64_t rest_epoch = -1;     ///< -1: there is none
  std::int64_t total_steps = 0;     ///< up to the end of the run
  std::int64_t schedule_steps = 0;  ///< of the learning rate: --max-steps, else those of all epochs

  std::int64_t step_samples() const { return batch_size * micro_batches; }
  EpochSize in_epoch(std::int64_t epoch) const {
    return epoch == rest_epoch ? rest : EpochSize{.samples = epoch_samples};
  }
  /// The one with this index in its epoch.
  MicroBatch micro_batch(std::int64_t index, const EpochSize& epoch) const;
};

/// UsageError when `samples` do not give every rank a batch, or with --drop-last a full step. Whether the
/// schedule of the learning rate fits the steps is not known before a checkpoint is: `require_schedule`.
Batching batching_of(const Options& options, const comm::World& world, std::int64_t samples);

/// The same from `progress` on, which drops a rest of an epoch that makes no step.
void resume_batching(Batching& batching, const Options& options, const data::DistributedSampler& sampler,
                     TrainingProgress& progress);

/// "--warmup-steps 5 leaves none of 5 steps with the full rate"; empty where one has it.
std::string warm_up_to_the_end(const model::OptimizerOptions& optimizer, const Batching& batching);

/// UsageError when --lr-min is above --lr, or a run ends in the warm-up; one that `resumes` may, unless
/// --max-steps ends it there: it takes as many steps as its ranks make of what is left.
void require_schedule(const Options& options, const Batching& batching, bool resumes);

}  // namespace lockstep::runtime
