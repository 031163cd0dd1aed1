#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world/world.h"
#include "runtime/machine/session.h"
#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/run/batching.h"
#include "runtime/run/plan_requests.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// All plans of a run by their keys, and their common constraints.
struct RunPlans {
  /// As `plan_requests` lists them: the first is of a full batch, the longest.
  std::vector<Plan> all;
  PlanConstraints constraints;
  std::string benchmark_report{};  ///< on rank 0, where --benchmark chose the algorithms

  BatchLengths lengths{};

  const Plan& full_batch() const { return all.front(); }
  const Plan& at(const PlanKey& key) const;
  const Plan& for_evaluation(std::int64_t length) const {  ///< if there is a test set
    return at({.mode = Mode::evaluate, .batch = full_batch().key().batch, .length = length});
  }
};

/// Collective. A resumed run keeps the algorithms that were `saved`, so that its bits stay; another run with
/// --benchmark uses those that rank 0 measures, now or in an earlier run. UsageError when the model's
/// parameters follow the size of its batches.
RunPlans plan_run(const Options& options, const TrainingTask& task, const Batching& batching,
                  const Session& session, const std::optional<SelectedAlgorithms>& saved);

/// Bytes counted for checkpoints: 0 without --checkpoint-every, since only a stop, and the end of a run that
/// went on, make a checkpoint then.
std::size_t staged_checkpoint_bytes(const Options& options, const Plan& plan);

/// Of all plans and the staged checkpoint. UsageError above `most_bytes`.
MemoryNeed run_memory_need(const Options& options, std::span<const Plan> plans);

/// What a rank's GPU has free.
struct GpuMemory {
  std::size_t bytes = 0;
  std::string gpu;  ///< equal texts: one GPU
};
/// What one rank may take.
struct FreeMemory {
  std::size_t bytes = 0;
  int rank = 0;
  int sharers = 1;  ///< ranks with the same GPU

  /// " free", or " free for each of its 2 ranks", as it stands behind the number.
  std::string words() const;
};
/// Of the rank that may take the least: ranks with one GPU have equal parts of it.
FreeMemory least_share(std::span<const GpuMemory> ranks);
/// The same, collective. None on the CPU.
std::optional<FreeMemory> least_free(const Session& session);

/// Collective, before memory is allocated. DeviceError on all ranks when the plans need more than the fullest
/// of their GPUs has free for each: how much, and the largest batch that fits, found by planning it. Later
/// allocations of CUDA and NCCL (graphs, channels) are not counted. Does nothing on the CPU.
void require_memory(const Options& options, const TrainingTask& task, const RunPlans& plans,
                    const Session& session);

/// Bytes that CUDA allocates for this need: it hands out whole pages of 2 MiB.
std::size_t gpu_bytes(const MemoryNeed& need);

/// Bytes of GPU memory that the run would need with another batch size.
std::size_t device_bytes_with(std::int64_t batch_size, Options options, const TrainingTask& task,
                              const SelectedAlgorithms& algorithms, const Session& session);

/// The largest batch below `too_large` that `fits`, if smaller ones do too; 0 when not even 1 does.
std::int64_t largest_batch(std::int64_t too_large, const std::function<bool(std::int64_t)>& fits);

/// Whether the updates of a run's steps are left to the next step's forward, in which the exchange goes on
/// (`ScheduleOptions::defers`): between nodes, where a thread of the rank on the CPU exchanges, not MPI.
bool defers_updates(const kernels::Device& device, std::string_view backend, bool crosses_nodes);

/// Whether ranks can update a shard each (`ScheduleOptions::shards_updates`): where they exchange through
/// memory that they share.
bool can_shard_updates(const kernels::Device& device, std::string_view backend, bool crosses_nodes);

/// What the options ask of the training plan `key` of `ranks`, exchanging as `exchange` says (overlap is the
/// options').
PlanRequest training_request(const Options& options, const PlanKey& key, int ranks, ScheduleOptions exchange);

/// What --amp means on `device`: off, bf16 or fp16. UsageError for fp16 on a CPU, and for bf16 on a GPU
/// without its arithmetic.
std::string amp_on(const kernels::Device& device, const std::string& amp);

/// What the options decide for all plans of a run; `Options::amp` as `amp_on` gives it.
PlanConstraints plan_constraints(const Options& options);

}  // namespace lockstep::runtime
