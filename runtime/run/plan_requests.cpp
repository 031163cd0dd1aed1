#include "runtime/run/plan_requests.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

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

/// "'fc.weight' 10x64", of each parameter that the model has for batches of this size, cut to `length`.
std::vector<std::string> parameters_of(const TrainingTask& task, std::int64_t batch, std::int64_t length) {
  const model::Graph graph = model::build_forward(task.model, model::cut_to(task.input, length), batch);
  std::vector<std::string> all;
  for (const model::Parameter& parameter : graph.parameters())
    all.push_back(fmt::format("'{}' {}", graph.value(parameter.value).name, parameter.file_shape.str()));
  return all;
}

/// Whether the model, which learns from whole rows, has the same parameters for rows of `length`.
bool can_cut(const TrainingTask& task, std::int64_t length) {
  try {
    return parameters_of(task, 1, length) == parameters_of(task, 1, 0);
  } catch (const UsageError&) {
    return false;
  }
}

std::string described(const PlanKey& key) {
  const std::string cut = key.length > 0 ? fmt::format(" of length {}", key.length) : std::string();
  return fmt::format("a batch of {}{}", key.batch, cut);
}

std::vector<std::int64_t> lengths_for(const TrainingTask& task, const data::DatasetPtr& samples,
                                      const Batching& batching, Activity* activity) {
  if (samples == nullptr) return {};
  auto lengths = data::batch_lengths(*samples, batching.batch_size, activity);
  return lengths.empty() || can_cut(task, lengths.front()) ? lengths : std::vector<std::int64_t>();
}

}  // namespace

void require_same_parameters(const TrainingTask& task, const std::vector<PlanRequest>& requests) {
  const PlanKey& first = requests.front().key;
  std::vector<std::string> wanted;
  for (const PlanRequest& request : requests) {
    const PlanKey& key = request.key;
    if (key.batch == first.batch && key.length == first.length) continue;
    if (wanted.empty()) wanted = parameters_of(task, first.batch, first.length);
    const std::vector<std::string> given = parameters_of(task, key.batch, key.length);
    const auto [ours, theirs] = std::ranges::mismatch(wanted, given);
    if (ours == wanted.end() && theirs == given.end()) continue;
    throw UsageError(fmt::format(
        "model '{}' has parameter {} for {}, and {} for {}: names and shapes must not follow the batch",
        task.model.name, ours == wanted.end() ? "none" : *ours, described(first),
        theirs == given.end() ? "none" : *theirs, described(key)));
  }
}

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
