#include "runtime/run/plan_requests.h"

#include <algorithm>

#include "data/lengths.h"
#include "kernels/base/error.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {
namespace {

/// Adds those of the micro-batches of a step that are not there yet.
void add_keys(const Batching& batching, const EpochSize& epoch, std::int64_t step,
              std::vector<PlanKey>& keys) {
  for (std::int64_t index = step * batching.micro_batches;; ++index) {
    const PlanKey key = batching.micro_batch(index, epoch).key();
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    if (ends_step(key.role)) return;
  }
}

/// The same of an epoch's smaller last step, if it has one.
void add_last_keys(const Batching& batching, const EpochSize& epoch, std::vector<PlanKey>& keys) {
  const std::int64_t full_steps = epoch.samples / batching.step_samples();
  if (epoch.samples % batching.step_samples() != 0 && batching.total_steps > full_steps) {
    add_keys(batching, epoch, full_steps, keys);
  }
}

/// Whether the model, which learns from whole rows, has the same parameters for rows of `length`.
bool can_cut(const TrainingTask& task, std::int64_t length) {
  const auto shapes = [&](std::int64_t cut) {
    std::vector<Shape> all;
    const model::Graph graph = model::build_forward(task.model, model::cut_to(task.input, cut), 1);
    for (const model::Parameter& parameter : graph.parameters()) all.push_back(parameter.file_shape);
    return all;
  };
  try {
    return shapes(length) == shapes(0);
  } catch (const UsageError&) {
    return false;
  }
}

std::vector<std::int64_t> lengths_for(const TrainingTask& task, const data::DatasetPtr& samples,
                                      const Batching& batching, Activity* activity) {
  if (samples == nullptr) return {};
  auto lengths = data::batch_lengths(*samples, batching.batch_size, activity);
  return lengths.empty() || can_cut(task, lengths.front()) ? lengths : std::vector<std::int64_t>();
}

}  // namespace

BatchLengths batch_lengths_of(const TrainingTask& task, const Batching& batching, Activity* activity) {
  return {.training = lengths_for(task, task.train_set, batching, activity),
          .evaluation = lengths_for(task, task.test_set, batching, activity)};
}

std::vector<PlanKey> of_lengths(const std::vector<PlanKey>& keys, const std::vector<std::int64_t>& lengths) {
  if (lengths.empty()) return keys;
  std::vector<PlanKey> all;
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) {
    for (PlanKey key : keys) {
      key.length = *length;
      all.push_back(key);
    }
  }
  return all;
}

std::vector<PlanRequest> plan_requests(const Options& options, const Batching& batching, int ranks,
                                       ScheduleOptions exchange, bool evaluates,
                                       const BatchLengths& lengths) {
  std::vector<PlanKey> keys;
  add_keys(batching, {batching.epoch_samples}, 0, keys);
  std::vector<PlanKey> of_last_steps;
  add_last_keys(batching, {batching.epoch_samples}, of_last_steps);
  if (batching.rest_epoch >= 0) add_last_keys(batching, batching.rest, of_last_steps);
  keys = of_lengths(keys, lengths.training);
  for (PlanKey& key : of_last_steps) {
    key.length = lengths.training.empty() ? 0 : lengths.training.back();
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  std::vector<PlanRequest> requests;
  for (const PlanKey& key : keys) {
    requests.push_back(training_request(options, key, ranks, exchange));
    requests.back().optimizer.schedule.steps = batching.schedule_steps;
  }
  if (!evaluates) return requests;
  const PlanKey evaluation{.mode = Mode::evaluate, .batch = batching.batch_size};
  for (const PlanKey& key : of_lengths({evaluation}, lengths.evaluation))
    requests.push_back({.key = key, .average_decay = options.ema});
  return requests;
}

}  // namespace lockstep::runtime
