#pragma once

#include <cstdint>
#include <functional>

#include "runtime/machine/session.h"
#include "runtime/options/options.h"
#include "runtime/run/run_plans.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// Collective, before memory is allocated. DeviceError on all ranks when the plans need more than the fullest
/// of their GPUs has free: how much, and the largest batch that would do, found by planning it. What CUDA and
/// NCCL take on top later (graphs, channels) is not counted. Nothing is compared on the CPU.
void require_memory(const Options& options, const TrainingTask& task, const RunPlans& plans,
                    const Session& session);

/// What CUDA takes of a GPU for this need: it hands out whole pages of 2 MiB.
std::size_t gpu_bytes(const MemoryNeed& need);

/// The largest batch below `too_large` that `fits`, if smaller ones do too; 0 when not even 1 does.
std::int64_t largest_batch(std::int64_t too_large, const std::function<bool(std::int64_t)>& fits);

}  // namespace lockstep::runtime
