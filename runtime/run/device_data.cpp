#include "runtime/run/device_data.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "data/loader.h"
#include "kernels/base/activity.h"
#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {
namespace {

/// Samples take no more than this part of a GPU's free memory unasked.
constexpr std::size_t automatic_part = 8;

/// With each set in another form, unless one has none or would need another op than the first. What a device
/// keeps of the second lies behind the first's.
template <class Convert>
std::optional<TrainingTask> converted(TrainingTask task, const Convert& convert) {
  for (data::DatasetPtr* set : {&task.train_set, &task.test_set}) {
    if (*set == nullptr) continue;
    *set = convert(**set, task.input.stored);
    if (*set == nullptr) return std::nullopt;
    const data::SampleSpec& spec = (*set)->spec();
    if (set == &task.train_set) {
      task.input.pictures = spec.pictures;
      task.input.windows = spec.windows;
      task.input.rows = spec.rows;
    }
    const bool alike = spec.pictures == task.input.pictures && spec.windows == task.input.windows &&
                       spec.rows == task.input.rows;
    if (!alike) return std::nullopt;
    task.input.stored += (*set)->kept();
  }
  return task;
}

/// No value where samples cannot be made of what a device could keep.
std::optional<TrainingTask> kept_on_device(const TrainingTask& task) {
  return converted(task, [](const data::Dataset& set, std::int64_t first) { return set.as_kept(first); });
}

std::size_t store_bytes(const TrainingTask& task) {
  return static_cast<std::size_t>(task.input.stored) * task.train_set->spec().kept_bytes();
}

/// Why the samples are not kept, for users.
std::string obstacle_to_keeping(const TrainingTask& task) {
  if (task.pictures) return "these pictures are decoded or resized one by one";
  if (task.input.packed) return "these windows are packed with documents anew in each epoch";
  if (task.train_set->size() > 0 && task.train_set->length(0) > 0)
    return "these samples have lengths of their own";
  return "not these samples";
}

}  // namespace

TrainingTask fed_by_bytes(const kernels::Device& device, TrainingTask task) {
  if (device.is_cpu() || !task.pictures) return task;
  if (task.train_set == nullptr) {
    task.input.pictures = task.pictures;
    return task;
  }
  const auto fed = converted(task, [](const data::Dataset& set, std::int64_t) { return set.as_bytes(); });
  return fed ? *fed : task;
}

TrainingTask fed_to(const Session& session, const std::string& data_device, TrainingTask task) {
  const kernels::Device& device = *session.device;
  const bool asked = data_device == "gpu";
  if (asked && device.is_cpu())
    throw UsageError("--data-device gpu: this run computes on the CPU; give --device cuda, or leave it out");
  if (device.is_cpu() || data_device == "host") return fed_by_bytes(device, std::move(task));
  auto kept = judged_on_all_ranks(*session.communicator, [&] {
    auto of_rank = kept_on_device(task);
    if (asked && !of_rank) {
      throw UsageError(fmt::format(
          "--data-device gpu: {}; a GPU keeps pictures of one size that transforms only cut, flip and "
          "normalise (mnist, fashion-mnist, cifar10), text and tokens that --windows does not pack, and "
          "tensors; leave it out",
          obstacle_to_keeping(task)));
    }
    return of_rank;
  });
  // All ranks ask for it, whatever they have found.
  const std::size_t most = asked ? 0 : least_free(session)->bytes / automatic_part;
  const bool keeps = kept && (asked || store_bytes(*kept) <= most);
  return keeps ? std::move(*kept) : fed_by_bytes(device, std::move(task));
}

bool keeps_data(const TrainingTask& task) {
  return task.input.stored > 0;
}

void fill_store(const Session& session, const TrainingTask& task, std::span<std::byte> store) {
  if (store.empty()) return;
  constexpr std::size_t chunk = std::size_t{8} << 20;
  const std::size_t item_bytes = task.train_set->spec().kept_bytes();
  const std::size_t together = std::clamp<std::size_t>(chunk / item_bytes, 1, store.size() / item_bytes);
  const auto host = session.device->allocate_host(together * item_bytes);
  const auto stream = session.device->make_stream();
  Activity::Work work(session.activity.get(), std::string("copying the data set to the GPU"));
  std::size_t copied = 0;  // bytes
  for (const data::DatasetPtr& set : {task.train_set, task.test_set}) {
    const std::int64_t kept = set == nullptr ? 0 : set->kept();
    for (std::int64_t first = 0; first < kept; first += static_cast<std::int64_t>(together)) {
      const std::size_t count = std::min(together, static_cast<std::size_t>(kept - first));
      const std::span items(static_cast<std::byte*>(host->data()), count * item_bytes);
      set->read_kept(first, items);
      session.device->copy_to_device(store.data() + copied, items.data(), items.size(), *stream);
      stream->synchronize();
      copied += items.size();
      work.advance(copied, store.size());
    }
  }
}

std::size_t pinned_bytes(const kernels::Device& device, const Options& options, const Plan& plan) {
  if (device.is_cpu() || !pins_memory(options)) return 0;
  const std::size_t parts[] = {plan.bytes_of(model::Role::input), plan.bytes_of(model::Role::target),
                               plan.bytes_of(model::Role::states)};
  std::size_t batch = 0;
  std::size_t lines = 0;
  for (const std::size_t part : parts) {
    batch += part;
    lines += whole_lines(part);
  }
  const data::LoaderOptions loading{.workers = options.num_workers,
                                    .prefetch_factor = options.prefetch_factor};
  return data::loader_slots(loading, batch) * lines;
}

}  // namespace lockstep::runtime
