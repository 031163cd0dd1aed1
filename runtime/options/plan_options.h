#pragma once

#include "runtime/options/options.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

/// Samples per rank and step: --batch-size, or --global-batch over the ranks. UsageError when that does not
/// divide.
std::int64_t batch_size_per_rank(const Options& options, int world_size);

/// What the options ask of a training plan of `ranks`, exchanging as `exchange` says (overlap is the
/// options').
PlanRequest training_request(const Options& options, std::int64_t batch_size, int ranks,
                             ScheduleOptions exchange);

/// What the options decide for all plans of a run.
PlanConstraints plan_constraints(const Options& options);

}  // namespace lockstep::runtime
