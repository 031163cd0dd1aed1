#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/world/world.h"
#include "data/sampler.h"
#include "runtime/machine/session.h"
#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// The training samples of this rank.
data::DistributedSampler sampler_for(const Options& options, const comm::World& world, std::int64_t samples);

/// How the samples of a run fall into steps; equal on all ranks.
struct Batching {
  std::int64_t batch_size = 0;     ///< of each rank, in a full batch
  std::int64_t epoch_samples = 0;  ///< of each rank
  std::int64_t total_steps = 0;    ///< up to the end of the run
};

/// UsageError when `samples` do not give every rank a batch.
Batching batching_of(const Options& options, const comm::World& world, std::int64_t samples);

/// All plans of a run by their keys, and what they follow.
struct RunPlans {
  std::vector<Plan> all;  ///< the full batch; an epoch's smaller last one, if the run comes to it; evaluation
  PlanConstraints decisions;

  const Plan& full_batch() const { return all.front(); }
  const Plan& at(const PlanKey& key) const;
  const Plan& for_training(std::int64_t samples) const { return at({.mode = Mode::train, .batch = samples}); }
  const Plan& for_evaluation() const {  ///< if there is a test set
    return at({.mode = Mode::evaluate, .batch = full_batch().key().batch});
  }
};

/// Collective. Algorithms are those that the run had when it was saved, so that the bits stay; else with
/// --benchmark what rank 0 measures.
RunPlans plan_run(const Options& options, const TrainingTask& task, const Batching& batching,
                  const Session& session, const std::optional<SelectedAlgorithms>& saved);

/// What the plan counts for checkpoints: without --checkpoint-every there is but the one of a stop.
std::size_t staged_checkpoint_bytes(const Options& options, const Plan& plan);

/// With the checkpoints' part. UsageError above `most_bytes`.
MemoryNeed run_memory_need(const Options& options, std::span<const Plan> plans);

}  // namespace lockstep::runtime
