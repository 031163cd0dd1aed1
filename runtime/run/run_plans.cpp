#include "runtime/run/run_plans.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/nccl/library.h"
#include "kernels/base/activity.h"
#include "kernels/base/deadline.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "runtime/plan/algorithms.h"
#include "runtime/run/algorithm_cache.h"
#include "runtime/run/plan_requests.h"
#include "runtime/weights/parameter_io.h"

namespace lockstep::runtime {
namespace {

/// What earlier runs have measured is not measured again. `report` gets a line for people.
SelectedAlgorithms measure(const Session& session, const Plan& plan, std::string& report) {
  const AlgorithmCache cache =
      algorithm_cache_for(*session.device, plan.matmul_precision, plan.conv_precision);
  KnownAlgorithms known = [&] {
    const Activity::Work reading(session.activity.get(), "reading " + cache.file().string());
    return cache.load();
  }();
  const auto start = Clock::now();
  Benchmark benchmark = benchmark_algorithms(plan.graph, *session.device, known);
  report = fmt::format("--benchmark: {} ops timed in {:.2f} s, {} known", benchmark.timed,
                       Seconds(Clock::now() - start).count(), benchmark.selected.size() - benchmark.timed);
  if (!cache.file().empty()) report += " from " + cache.file().string();
  if (benchmark.timed > 0) {
    const Activity::Work writing(session.activity.get(), "writing " + cache.file().string());
    cache.store(known, session.activity.get());
  }
  return std::move(benchmark.selected);
}

/// Rank 0 measures, all ranks take what it selects.
SelectedAlgorithms agree_on_algorithms(const Session& session, const Plan& plan, std::string& report) {
  const std::string text = session.is_rank0() ? to_text(measure(session, plan, report)) : std::string();
  return selected_algorithms_from(session.communicator->all_gather(text).front());
}

std::size_t device_bytes(const Options& options, const RunPlans& plans) {
  return gpu_bytes(run_memory_need(options, plans.all));
}

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// The batch size as the option that the user gave.
std::string batch_option(const Options& options, const comm::World& world, std::int64_t batch_size) {
  return options.global_batch > 0
             ? fmt::format("--global-batch {}", batch_size * options.accumulate_steps * world.size)
             : fmt::format("--batch-size {}", batch_size);
}

/// What a layer says of a batch that no user asked for.
std::string of_last_step(const std::string& reason, std::int64_t samples, const Options& options,
                         bool resumes) {
  return fmt::format("{}; an epoch's last step ends in a batch of {} on each rank: give another {}{}", reason,
                     samples, options.global_batch > 0 ? "--global-batch" : "--batch-size",
                     resumes ? "" : ", or --drop-last");
}

}  // namespace

const Plan& RunPlans::at(const PlanKey& key) const {
  const auto found = std::ranges::find(all, key, &Plan::key);
  if (found == all.end())
    throw std::logic_error(fmt::format("no plan for a batch of {}, length {}", key.batch, key.length));
  return *found;
}

RunPlans plan_run(const Options& options, const TrainingTask& task, const Batching& batching,
                  const Session& session, const std::optional<SelectedAlgorithms>& saved) {
  RunPlans plans{.all = {}, .constraints = plan_constraints(options)};
  plans.lengths = batch_lengths_of(task, batching, session.activity.get());
  const auto plan = [&](const PlanRequest& request) {
    try {
      return make_plan(task.model, task.input, request, *session.device, plans.constraints);
    } catch (const UsageError& error) {
      if (plans.all.empty() || request.key.batch >= plans.full_batch().key().batch) throw;
      throw UsageError(of_last_step(error.what(), request.key.batch, options, saved.has_value()));
    }
  };
  const comm::Communicator& communicator = *session.communicator;
  const ScheduleOptions exchange{
      .exchange = session.world.size > 1,
      .defers = defers_updates(*session.device, communicator.backend(), communicator.crosses_nodes()),
      .shards_updates =
          can_shard_updates(*session.device, communicator.backend(), communicator.crosses_nodes()),
      .stream_ordered = communicator.stream_ordered()};
  const auto requests =
      plan_requests(options, batching, session.world.size, exchange, task.test_set != nullptr, plans.lengths);
  require_same_parameters(task, requests);
  for (const PlanRequest& request : requests) {
    plans.all.push_back(plan(request));
    if (plans.all.size() > 1) continue;
    SelectedAlgorithms& algorithms = plans.constraints.algorithms;
    plans.constraints.parameter_layouts = parameter_layouts(plans.full_batch().graph);
    if (saved) {
      algorithms = *saved;
    } else if (options.benchmark) {
      algorithms = agree_on_algorithms(session, plans.full_batch(), plans.benchmark_report);
    }
    if (!algorithms.empty()) plans.all.front() = plan(request);
    plans.constraints.arena = plans.full_batch().arena;
  }
  return plans;
}

std::string FreeMemory::words() const {
  return sharers > 1 ? fmt::format(" free for each of its {} ranks", sharers) : " free";
}

FreeMemory least_share(std::span<const GpuMemory> ranks) {
  FreeMemory least{.bytes = std::numeric_limits<std::size_t>::max()};
  for (int rank = 0; const GpuMemory& own : ranks) {
    const auto sharers = std::ranges::count(ranks, own.gpu, &GpuMemory::gpu);
    const std::size_t share = own.bytes / static_cast<std::size_t>(sharers);
    if (share < least.bytes) least = {.bytes = share, .rank = rank, .sharers = static_cast<int>(sharers)};
    ++rank;
  }
  return least;
}

std::optional<FreeMemory> least_free(const Session& session) {
  const auto mine = session.device->free_bytes();
  if (!mine) return std::nullopt;
  const std::string own = comm::gpu_identity(*session.device).key();
  std::vector<GpuMemory> ranks;
  for (const std::string& text : session.communicator->all_gather(fmt::format("{} {}", *mine, own))) {
    ranks.push_back({.bytes = std::stoull(text), .gpu = text.substr(text.find(' '))});
  }
  return least_share(ranks);
}

std::size_t staged_checkpoint_bytes(const Options& options, const Plan& plan) {
  return options.checkpoint_every > 0 ? staged_bytes(plan) : 0;
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

std::size_t gpu_bytes(const MemoryNeed& need) {
  constexpr std::size_t page = std::size_t{2} << 20;
  // Parts of which there are several (states, batch slots, gradients and their sums) end in as many pages;
  // step state and control have one.
  std::size_t pages = 10;
  for (const std::size_t part :
       {need.parameters, need.parameter_copies, need.gradients, need.optimizer_state, need.averages,
        need.activations, need.workspace, need.batch_slots, need.stored, need.step_state}) {
    pages += parts_of(part, page);
  }
  return pages * page;
}

std::size_t device_bytes_with(std::int64_t batch_size, Options options, const TrainingTask& task,
                              const SelectedAlgorithms& algorithms, const Session& session) {
  options.batch_size = batch_size;
  options.global_batch = 0;
  const Batching batching = batching_of(options, session.world, task.train_set->size());
  return device_bytes(options, plan_run(options, task, batching, session, algorithms));
}

std::int64_t largest_batch(std::int64_t too_large, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t fitting = 0;
  while (too_large - fitting > 1) {
    const std::int64_t middle = fitting + (too_large - fitting) / 2;
    (fits(middle) ? fitting : too_large) = middle;
  }
  return fitting;
}

void require_memory(const Options& options, const TrainingTask& task, const RunPlans& plans,
                    const Session& session) {
  const auto free = least_free(session);
  const std::size_t needed = device_bytes(options, plans);
  if (!free || needed <= free->bytes) return;
  const std::int64_t batch_size = plans.full_batch().key().batch;
  const std::int64_t fitting = largest_batch(batch_size, [&](std::int64_t smaller) {
    return device_bytes_with(smaller, options, task, plans.constraints.algorithms, session) <= free->bytes;
  });
  const std::string hint =
      fitting > 0
          ? batch_option(options, session.world, fitting) + " fits"
          : fmt::format("not even {} fits: free the GPU of what else runs there, or take a smaller model",
                        batch_option(options, session.world, 1));
  throw DeviceError(
      fmt::format("{} needs {} of GPU memory ({} bytes), and rank {}'s GPU has {}{} ({} bytes): {}",
                  batch_option(options, session.world, batch_size), mebibytes(needed), needed, free->rank,
                  mebibytes(free->bytes), free->words(), free->bytes, hint));
}

namespace {

bool exchanges_by_host(const kernels::Device& device, std::string_view backend) {
  return device.is_cpu() && backend != "mpi";
}

/// `can`: ranks share memory.
void require_can_shard(const Options& options, bool can) {
  const auto refuse = [](const std::string& reason) {
    throw UsageError(fmt::format("--shard-optimizer {}: leave it out", reason));
  };
  if (!can) refuse("is for ranks of one node that compute on CPUs, without --backend mpi");
  if (options.clip_grad_norm > 0) refuse("does not go with --clip-grad-norm, which needs all gradients");
  if (!options.dump_gradients.empty()) refuse("does not go with --dump-gradients, which needs all gradients");
  if (options.grad_dtype != "fp32") refuse("does not go with --grad-dtype " + options.grad_dtype);
}

}  // namespace

bool defers_updates(const kernels::Device& device, std::string_view backend, bool crosses_nodes) {
  return crosses_nodes && exchanges_by_host(device, backend);
}

bool can_shard_updates(const kernels::Device& device, std::string_view backend, bool crosses_nodes) {
  return !crosses_nodes && exchanges_by_host(device, backend);
}

PlanRequest training_request(const Options& options, const PlanKey& key, int ranks,
                             ScheduleOptions exchange) {
  exchange.overlap = !options.no_overlap;
  exchange.defers = exchange.defers && !options.detect_anomaly;  // which judges a step at its end
  if (options.shard_optimizer && ranks > 1) require_can_shard(options, exchange.shards_updates);
  exchange.shards_updates = exchange.shards_updates && options.shard_optimizer;
  constexpr double mebibyte = 1 << 20;
  return {.key = key,
          .micro_batches = options.accumulate_steps,
          .buckets = {.first_bytes = static_cast<std::size_t>(options.first_bucket_mb * mebibyte),
                      .bytes = static_cast<std::size_t>(options.bucket_cap_mb * mebibyte),
                      .ranks = ranks,
                      .fine = exchange.defers,
                      .decays_matrices_only = !options.optimizer.decays_vectors},
          .schedule = exchange,
          .clip_grad_norm = options.clip_grad_norm,
          .average_decay = options.ema,
          .optimizer = options.optimizer};
}

std::string amp_on(const kernels::Device& device, const std::string& amp) {
  const bool cpu = device.is_cpu();
  if (amp == "fp16" && cpu) {
    throw UsageError("--amp fp16 needs a GPU: give --amp bf16 on a CPU, or --device cuda");
  }
  if (amp == "bf16" && !cpu && !device.has_bf16()) {
    throw UsageError("--amp bf16: this GPU has no arithmetic on bf16: give --amp fp16");
  }
  if (amp != "auto") return amp;
  return cpu || device.has_bf16() ? "bf16" : "fp16";
}

PlanConstraints plan_constraints(const Options& options) {
  const auto dtype_of = [](const std::string& word) {
    return word == "bf16" ? DType::bf16 : word == "fp16" ? DType::f16 : DType::f32;
  };
  const auto way_of = [](const std::string& word) {
    return word == "dense"  ? EmbeddingExchange::dense
           : word == "rows" ? EmbeddingExchange::rows
                            : EmbeddingExchange::automatic;
  };
  return {.matmul_precision = options.matmul_precision,
          .conv_precision = options.conv_precision,
          .compute_dtype = dtype_of(options.amp),
          .gradient_dtype = dtype_of(options.grad_dtype),
          .freeze = options.freeze,
          .allow_unused = options.allow_unused,
          .recompute = options.recompute,
          .sync_batch_norm = options.sync_bn,
          .embedding_exchange = way_of(options.embedding_exchange)};
}

}  // namespace lockstep::runtime
