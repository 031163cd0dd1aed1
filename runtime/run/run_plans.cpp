#include "runtime/run/run_plans.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "runtime/options/plan_options.h"
#include "runtime/plan/benchmark.h"
#include "runtime/step/parameter_io.h"

namespace lockstep::runtime {
namespace {

std::int64_t total_steps(const Options& options, const Batching& batching) {
  const std::int64_t whole = batching.epoch_samples / batching.batch_size;
  const bool has_rest = batching.epoch_samples % batching.batch_size != 0 && !options.drop_last;
  const std::int64_t by_epochs = options.epochs * (has_rest ? whole + 1 : whole);
  if (options.epochs == 0) return options.max_steps;
  return options.max_steps == 0 ? by_epochs : std::min(by_epochs, options.max_steps);
}

std::vector<PlanRequest> plan_requests(const Options& options, const Batching& batching, int ranks,
                                       ScheduleOptions exchange, bool evaluates) {
  const PlanRequest full = training_request(options, batching.batch_size, ranks, exchange);
  std::vector<PlanRequest> requests{full};
  const std::int64_t rest = batching.epoch_samples % full.key.batch;
  const std::int64_t full_steps = batching.epoch_samples / full.key.batch;
  const bool rest_is_reached = options.max_steps == 0 || options.max_steps > full_steps;
  if (rest != 0 && !options.drop_last && rest_is_reached) {
    requests.push_back(full);
    requests.back().key.batch = rest;
  }
  if (evaluates) {
    requests.push_back({.key = {.mode = Mode::evaluate, .batch = full.key.batch}});
  }
  return requests;
}

SelectedAlgorithms measure_algorithms(const Session& session, const Plan& plan) {
  const bool measures = session.world.rank == 0;
  const std::string text = measures ? to_text(benchmark_algorithms(plan, *session.device)) : std::string();
  return selected_algorithms_from(session.communicator->all_gather(text).front());
}

}  // namespace

data::DistributedSampler sampler_for(const Options& options, const comm::World& world, std::int64_t samples) {
  return {.samples = samples,
          .replicas = world.size,
          .rank = world.rank,
          .shuffle = true,
          .seed = options.seed,
          .drop_last = options.drop_last};
}

Batching batching_of(const Options& options, const comm::World& world, std::int64_t samples) {
  const std::int64_t wanted = batch_size_per_rank(options, world.size);
  const std::int64_t epoch_samples = sampler_for(options, world, samples).size();
  if (epoch_samples < 1 || (options.drop_last && epoch_samples < wanted)) {
    throw UsageError(
        fmt::format("{} samples do not give each of {} ranks a batch of {}: take a smaller --batch-size",
                    samples, world.size, wanted));
  }
  Batching batching{.batch_size = std::min(wanted, epoch_samples), .epoch_samples = epoch_samples};
  batching.total_steps = total_steps(options, batching);
  return batching;
}

const Plan& RunPlans::at(const PlanKey& key) const {
  const auto found = std::ranges::find(all, key, &Plan::key);
  if (found == all.end()) throw std::logic_error(fmt::format("no plan for a batch of {}", key.batch));
  return *found;
}

RunPlans plan_run(const Options& options, const TrainingTask& task, const Batching& batching,
                  const Session& session, const std::optional<SelectedAlgorithms>& saved) {
  RunPlans plans{.all = {}, .decisions = plan_constraints(options)};
  const auto plan = [&](const PlanRequest& request) {
    return make_plan(task.model, task.input, request, *session.device, plans.decisions);
  };
  const ScheduleOptions exchange{.exchange = session.world.size > 1,
                                 .stream_ordered = session.communicator->stream_ordered()};
  const auto requests =
      plan_requests(options, batching, session.world.size, exchange, task.test_set != nullptr);
  for (const PlanRequest& request : requests) {
    plans.all.push_back(plan(request));
    if (plans.all.size() > 1) continue;
    SelectedAlgorithms& algorithms = plans.decisions.algorithms;
    plans.decisions.parameter_layouts = parameter_layouts(plans.full_batch().graph);
    if (saved) {
      algorithms = *saved;
    } else if (options.benchmark) {
      algorithms = measure_algorithms(session, plans.full_batch());
    }
    if (!algorithms.empty()) plans.all.front() = plan(request);
    plans.decisions.arena = plans.full_batch().arena;
  }
  return plans;
}

std::size_t staged_checkpoint_bytes(const Options& options, const Plan& plan) {
  return options.checkpoint_every > 0 ? staged_bytes(plan, options.optimizer) : 0;
}

MemoryNeed run_memory_need(const Options& options, std::span<const Plan> plans) {
  MemoryNeed need = memory_need(plans);
  need.checkpoint = staged_checkpoint_bytes(options, plans.front());
  if (need.total() > static_cast<std::size_t>(most_bytes)) {
    throw UsageError(fmt::format(
        "the run needs {} bytes a rank ({} of parameters, {} of activations), at most 2^40: take a "
        "smaller --batch-size or model",
        need.total(), need.parameters, need.activations));
  }
  return need;
}

}  // namespace lockstep::runtime
