#include "runtime/run/device_data.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "data/loader.h"
#include "kernels/base/activity.h"
#include "kernels/base/alignment.h"
#include "kernels/base/error.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {
namespace {

/// Pictures take no more than this part of a GPU's free memory unasked.
constexpr std::size_t automatic_part = 8;

bool is_cpu(const kernels::Device& device) {
  return device.kind() == kernels::DeviceKind::cpu;
}

/// With each set in another form, unless one has none or would need another op than the first.
template <class Convert>
std::optional<TrainingTask> converted(TrainingTask task, const Convert& convert) {
  task.train_set = convert(*task.train_set, 0);
  if (task.train_set == nullptr) return std::nullopt;
  task.input.pictures = task.train_set->spec().pictures;
  if (task.test_set == nullptr) return task;
  task.test_set = convert(*task.test_set, task.train_set->size());
  if (task.test_set == nullptr || task.test_set->spec().pictures != task.input.pictures) return std::nullopt;
  return task;
}

std::int64_t pictures_of(const TrainingTask& task) {
  return task.train_set->size() + (task.test_set == nullptr ? 0 : task.test_set->size());
}

/// No value where pictures must be decoded or resized one by one.
std::optional<TrainingTask> kept_on_device(const TrainingTask& task) {
  if (!task.pictures || pictures_of(task) > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  auto kept =
      converted(task, [](const data::Dataset& set, std::int64_t first) { return set.as_cuts(first); });
  if (kept) kept->input.stored_pictures = pictures_of(task);
  return kept;
}

std::size_t store_bytes(const TrainingTask& task) {
  return bytes_of_all("stored pictures", static_cast<std::size_t>(task.input.stored_pictures),
                      static_cast<std::size_t>(task.input.pictures->stored_bytes()));
}

}  // namespace

TrainingTask fed_by_bytes(const kernels::Device& device, TrainingTask task) {
  if (is_cpu(device) || !task.pictures) return task;
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
  if (asked && is_cpu(device))
    throw UsageError("--data-device gpu: this run computes on the CPU; give --device cuda, or leave it out");
  if (is_cpu(device) || data_device == "host") return fed_by_bytes(device, std::move(task));
  auto kept = kept_on_device(task);
  if (asked && !kept) {
    throw UsageError(
        "--data-device gpu: a GPU keeps pictures of one size that transforms only cut, flip and normalise "
        "(mnist, fashion-mnist, cifar10), not these samples; leave it out");
  }
  const bool keeps = kept && (asked || store_bytes(*kept) <= least_free(session)->bytes / automatic_part);
  return keeps ? std::move(*kept) : fed_by_bytes(device, std::move(task));
}

bool keeps_pictures(const TrainingTask& task) {
  return task.input.stored_pictures > 0;
}

void fill_store(const Session& session, const TrainingTask& task, std::span<std::byte> store) {
  if (store.empty()) return;
  constexpr std::size_t chunk = std::size_t{8} << 20;
  const auto bytes = static_cast<std::size_t>(task.input.pictures->stored_bytes());
  const std::size_t together = std::clamp<std::size_t>(chunk / bytes, 1, store.size() / bytes);
  const auto host = session.device->allocate_host(together * bytes);
  const auto stream = session.device->make_stream();
  auto* const pixels = static_cast<std::uint8_t*>(host->data());
  Activity::Work work(session.activity.get(), std::string("copying the data set to the GPU"));
  std::size_t filled = 0;
  std::size_t copied = 0;  // bytes
  const auto copy = [&] {
    session.device->copy_to_device(store.data() + copied, pixels, filled * bytes, *stream);
    stream->synchronize();
    copied += filled * bytes;
    filled = 0;
    work.advance(copied, store.size());
  };
  for (const data::DatasetPtr& set : {task.train_set, task.test_set}) {
    for (std::int64_t index = 0; set != nullptr && index < set->size(); ++index) {
      set->get_stored(index, {pixels + filled * bytes, bytes});
      if (++filled == together) copy();
    }
  }
  if (filled > 0) copy();
}

std::size_t pinned_bytes(const kernels::Device& device, const Options& options, const Plan& plan) {
  if (is_cpu(device) || options.pin_memory == "off") return 0;
  const std::size_t parts[] = {plan.input_bytes(), plan.target_bytes(), plan.states_bytes()};
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
