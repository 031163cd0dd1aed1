#include "runtime/run/batch_size.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/file_status.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"
#include "runtime/checkpoint/restart.h"
#include "runtime/checkpoint/run_directory.h"
#include "runtime/performance/gpu_factors.h"
#include "runtime/run/practice_replica.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task_names.h"
#include "runtime/step/cuda_graph_policy.h"

namespace lockstep::runtime {
namespace {

/// What the run that goes on has taken; none where none does.
std::optional<std::int64_t> known_batch_size(const Options& options, const TrainingTask& task,
                                             const Session& session) {
  const auto config = run_folder(recorded(options, task), task.model.name, session.world) / "config.ini";
  std::string known;
  const bool may_go_on = options.resume == "auto" || names_a_path(options.resume) ||
                         default_resume(comm::process_environment()) == "auto";
  if (session.is_rank0() && may_go_on && std::filesystem::exists(status_at(config)))
    known = std::to_string(parse_options({"--config", config.string()}).batch_size);
  return parse_number<std::int64_t>(session.communicator->all_gather(known).front());
}

std::int64_t largest_fitting(const Options& options, const TrainingTask& task, const Session& session) {
  const auto free = least_free(session);
  if (!free) {
    throw UsageError(
        "--batch-size auto is for GPUs: on a CPU ranks share their memory with all else that runs, and "
        "caches make larger batches no faster; give a number");
  }
  // Graphs, NCCL's channels and modules that load later are in no plan.
  const std::size_t available = free->bytes - std::min(unplanned_bytes, free->bytes / 16);
  const std::int64_t parts = options.accumulate_steps * session.world.size;
  const std::int64_t most = std::min(most_global_batch, std::max(task.train_set->size(), parts)) / parts;
  const auto fits = [&](std::int64_t batch) {
    try {
      return device_bytes_with(batch, options, task, {}, session) <= available;
    } catch (const Error&) {  // a library has no kernel for so many samples, or a count is out of range
      return false;
    }
  };
  std::int64_t too_large = 64;
  while (too_large <= most && fits(too_large)) too_large *= 2;
  const std::int64_t mine = largest_batch(std::min(too_large, most + 1), fits);
  const std::int64_t least = std::ranges::min(gather_numbers(*session.communicator, mine));
  if (least > 0) return least;
  throw DeviceError(
      fmt::format("--batch-size auto: not even one sample fits into the {:.1f} MiB that rank {}'s GPU has{}: "
                  "free it of what else runs there, or take a smaller model",
                  static_cast<double>(free->bytes) / (1 << 20), free->rank, free->words()));
}

/// The largest first.
std::vector<std::int64_t> candidates_up_to(std::int64_t largest) {
  constexpr std::size_t most = 5;
  std::vector<std::int64_t> batches{largest};
  auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(largest)));
  if (power == largest) power /= 2;
  for (; power > 0 && batches.size() < most; power /= 2) batches.push_back(power);
  return batches;
}

/// Of a step on the slowest rank, its first micro-batch where it has several; the shortest of some.
double seconds_of_step(Options options, std::int64_t batch, const TrainingTask& task, const Session& session,
                       bool can_replay) {
  constexpr int warm_up_steps = 3;  // modules are loaded, a graph is captured
  constexpr int timed_steps = 7;
  options.batch_size = batch;
  const Batching batching = batching_of(options, session.world, task.train_set->size());
  const RunPlans plans = plan_run(options, task, batching, session, std::nullopt);
  PracticeReplica replica(options, plans.all, *session.device, *session.communicator);
  const bool one_length = session.world.size == 1 || plans.lengths.training.empty();
  if (can_replay && one_length && options.cuda_graph != "off")
    replica.replay(without_graph(options.cuda_graph));
  for (int step = 0; step < warm_up_steps; ++step) replica.run(plans.full_batch());
  double mine = std::numeric_limits<double>::infinity();
  for (int step = 0; step < timed_steps; ++step) mine = std::min(mine, replica.run(plans.full_batch()));
  double slowest = 0;
  for (const std::string& text : session.communicator->all_gather(fmt::format("{}", mine)))
    slowest = std::max(slowest, std::stod(text));
  return slowest;
}

std::int64_t fastest_fitting(std::int64_t largest, const Options& options, const TrainingTask& task,
                             const Session& session, bool can_replay) {
  std::int64_t fastest = 0;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::string> times;
  for (const std::int64_t batch : candidates_up_to(largest)) {
    const double of_sample =
        seconds_of_step(options, batch, task, session, can_replay) / static_cast<double>(batch);
    times.push_back(fmt::format("{} {:.4g} us", batch, 1e6 * of_sample));
    if (of_sample >= least) continue;
    least = of_sample;
    fastest = batch;
  }
  session.communicator->take_timing();  // of exchanges that belong to no step
  if (session.is_rank0())
    log::info(fmt::format("--batch-size auto: time a sample by batch: {}", fmt::join(times, ", ")));
  return fastest;
}

}  // namespace

std::int64_t automatic_batch_size(const Options& options, const TrainingTask& task, const Session& session,
                                  bool can_replay) {
  if (const auto known = known_batch_size(options, task, session)) return *known;
  const std::int64_t largest = largest_fitting(options, task, session);
  return options.benchmark ? fastest_fitting(largest, options, task, session, can_replay) : largest;
}

}  // namespace lockstep::runtime
