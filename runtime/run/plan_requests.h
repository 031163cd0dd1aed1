#pragma once

#include <cstdint>
#include <vector>

#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/run/batching.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// To which batches of padded sequences are cut (data::batch_lengths), in rising order; empty: they are
/// whole.
struct BatchLengths {
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> evaluation;
};

/// Those of the task's data sets; whole rows where the model's parameters follow the length of its input.
BatchLengths batch_lengths_of(const TrainingTask& task, const Batching& batching, Activity* activity);

/// The same keys for each length, the longest first.
std::vector<PlanKey> of_lengths(const std::vector<PlanKey>& keys, const std::vector<std::int64_t>& lengths);

/// The plans of a run: of the micro-batches of a full step, for each length, the longest first; those of an
/// epoch's smaller last step, if the run comes to it, for the longest alone; evaluation, for each length.
std::vector<PlanRequest> plan_requests(const Options& options, const Batching& batching, int ranks,
                                       ScheduleOptions exchange, bool evaluates, const BatchLengths& lengths);

/// Plans of a run share the memory of their parameters, which the first lays out: UsageError unless the model
/// has the same for all.
void require_same_parameters(const TrainingTask& task, const std::vector<PlanRequest>& requests);

}  // namespace lockstep::runtime
