#include "runtime/run/predict_gpu.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/cuda/library.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {
namespace {

/// DataError naming the file where the GPU is one of a file that cuDNN does not take.
std::unique_ptr<kernels::Device> device_of(const GpuProfile& gpu) {
  try {
    return kernels::make_described_cuda_device(gpu.description);
  } catch (const UsageError& error) {
    if (!gpu.name.ends_with(".json")) throw;
    throw DataError(fmt::format("{}: {}", gpu.name, error.what()));
  }
}

/// Plans as a run on the GPU would make them.
class Planner {
 public:
  Planner(const Options& options, const TrainingTask& task, const GpuProfile& gpu)
      : task_(task), device_(device_of(gpu)), options_(options) {
    if (options.amp == "bf16" && !device_->has_bf16()) {  // other GPUs of a table may have it
      throw DeviceError(
          fmt::format("{} has no arithmetic on bf16: give --amp fp16 or auto", gpu.device_name));
    }
    options_.amp = amp_on(*device_, options.amp);
  }

  const Options& options() const { return options_; }

  Plan plan(std::int64_t batch, int ranks) const {
    const PlanKey key{.role = options_.accumulate_steps > 1 ? MicroBatchRole::last : MicroBatchRole::only,
                      .batch = batch};
    const ScheduleOptions exchange{.exchange = ranks > 1, .stream_ordered = true};
    return make_plan(task_.model, task_.input, training_request(options_, key, ranks, exchange), *device_,
                     plan_constraints(options_));
  }

  MemoryNeed need(const Plan& plan) const {
    MemoryNeed need = memory_need(std::span(&plan, 1));
    need.checkpoint = staged_checkpoint_bytes(options_, plan);
    return need;
  }

  /// No value where a library has no kernel for so large a batch.
  std::optional<double> bytes_with(std::int64_t batch) const {
    try {
      return static_cast<double>(gpu_bytes(need(plan(batch, 1))) + unplanned_bytes);
    } catch (const Error&) {
      return std::nullopt;
    }
  }

 private:
  const TrainingTask& task_;
  std::unique_ptr<kernels::Device> device_;
  Options options_;
};

/// A batch and the bytes that it needs.
struct Tried {
  std::int64_t batch;
  double bytes;
};

/// Memory is nearly a straight line over the batch: the next try is where that line meets what there is, and
/// in the middle where a library has no kernel.
class BatchSearch {
 public:
  BatchSearch(const Planner& planner, double available) : planner_(planner), available_(available) {}

  std::int64_t largest(std::int64_t first) {
    fitting_ = {0, 0};
    try_batch(first);
    while (!too_large_ && fitting_.batch < most_global_batch) try_batch(2 * fitting_.batch);
    if (!too_large_) return fitting_.batch;
    while (*too_large_ - fitting_.batch > tolerated()) try_batch(next());
    return fitting_.batch;
  }

 private:
  std::int64_t tolerated() const {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(batch_tolerance * static_cast<double>(fitting_.batch)));
  }

  std::int64_t next() {
    const std::int64_t low = fitting_.batch + 1;
    const std::int64_t high = *too_large_ - 1;
    const std::int64_t middle = low + (high - low) / 2;
    if (!bytes_of_too_large_ || fitting_.batch == 0 || ++interpolated_ % 3 == 0) return middle;
    const double slope =
        (*bytes_of_too_large_ - fitting_.bytes) / static_cast<double>(*too_large_ - fitting_.batch);
    if (slope <= 0) return middle;
    const auto guess = fitting_.batch + static_cast<std::int64_t>((available_ - fitting_.bytes) / slope);
    return std::clamp(guess, low, high);
  }

  void try_batch(std::int64_t batch) {
    const std::optional<double> bytes = planner_.bytes_with(batch);
    if (bytes && *bytes <= available_) {
      fitting_ = {batch, *bytes};
    } else {
      too_large_ = batch;
      bytes_of_too_large_ = bytes;
    }
  }

  const Planner& planner_;
  double available_;
  Tried fitting_{0, 0};
  std::optional<std::int64_t> too_large_;
  std::optional<double> bytes_of_too_large_;
  int interpolated_ = 0;
};

}  // namespace

std::size_t GpuPrediction::needed_bytes() const {
  return gpu_bytes(need) + unplanned_bytes;
}

GpuPrediction predict_gpu(const Options& options, const TrainingTask& task, const GpuQuestion& question) {
  const Planner planner(options, task, question.gpu);
  const std::int64_t batch = batch_size_per_rank(options, question.clusters.back().ranks);
  GpuPrediction prediction{.gpu = question.gpu, .options = planner.options(), .plan = planner.plan(batch, 1)};
  const GpuFigures& figures = question.gpu.figures;
  prediction.steps = predict_steps(prediction.plan, figures);
  prediction.need = planner.need(prediction.plan);
  prediction.savings = possible_savings(prediction.plan, prediction.steps, figures);
  for (const Cluster& cluster : question.clusters) {
    const Plan plan = planner.plan(batch, cluster.ranks);
    prediction.ranks.push_back(predict_on_gpu(plan, predict_steps(plan, figures), cluster, figures));
  }
  BatchSearch search(planner, static_cast<double>(question.gpu.memory_bytes));
  prediction.largest_batch = search.largest(batch);
  return prediction;
}

}  // namespace lockstep::runtime
