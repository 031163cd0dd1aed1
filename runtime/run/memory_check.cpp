#include "runtime/run/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/error.h"

namespace lockstep::runtime {
namespace {

struct FreeMemory {
  std::size_t bytes = 0;
  int rank = 0;  ///< that has the least
};

std::optional<FreeMemory> least_free(const Session& session) {
  const auto mine = session.device->free_bytes();
  if (!mine) return std::nullopt;
  const auto all = session.communicator->all_gather(std::to_string(*mine));
  std::vector<std::size_t> bytes;
  for (const std::string& text : all) bytes.push_back(std::stoull(text));
  const auto least = std::ranges::min_element(bytes);
  return FreeMemory{.bytes = *least, .rank = static_cast<int>(least - bytes.begin())};
}

std::size_t device_bytes(const Options& options, const RunPlans& plans) {
  return gpu_bytes(run_memory_need(options, plans.all));
}

/// What the run would need with other batches.
std::size_t device_bytes_with(std::int64_t batch_size, Options options, const TrainingTask& task,
                              const RunPlans& plans, const Session& session) {
  options.batch_size = batch_size;
  options.global_batch = 0;
  const Batching batching = batching_of(options, session.world, task.train_set->size());
  return device_bytes(options, plan_run(options, task, batching, session, plans.decisions.algorithms));
}

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// As the user has said it, or would.
std::string batch_option(const Options& options, const comm::World& world, std::int64_t batch_size) {
  return options.global_batch > 0 ? fmt::format("--global-batch {}", batch_size * world.size)
                                  : fmt::format("--batch-size {}", batch_size);
}

}  // namespace

std::size_t gpu_bytes(const MemoryNeed& need) {
  constexpr std::size_t page = std::size_t{2} << 20;
  // Parts of which there are several (states, batch slots) end in as many pages; step state and control have
  // one.
  std::size_t pages = 8;
  for (const std::size_t part : {need.parameters, need.gradients, need.optimizer_state, need.activations,
                                 need.workspace, need.batch_slots, need.step_state}) {
    pages += (part + page - 1) / page;
  }
  return pages * page;
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
    return device_bytes_with(smaller, options, task, plans, session) <= free->bytes;
  });
  const std::string hint =
      fitting > 0
          ? batch_option(options, session.world, fitting) + " fits"
          : fmt::format("not even {} fits: free the GPU of what else runs there, or take a smaller model",
                        batch_option(options, session.world, 1));
  throw DeviceError(
      fmt::format("{} needs {} of GPU memory ({} bytes), and rank {}'s GPU has {} free ({} bytes): {}",
                  batch_option(options, session.world, batch_size), mebibytes(needed), needed, free->rank,
                  mebibytes(free->bytes), free->bytes, hint));
}

}  // namespace lockstep::runtime
