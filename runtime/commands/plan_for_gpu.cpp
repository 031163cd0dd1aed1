#include "runtime/commands/plan_for_gpu.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/cuda/library.h"
#include "runtime/plan/print.h"
#include "runtime/run/predict_gpu.h"
#include "runtime/run/run_plans.h"

namespace lockstep::runtime {
namespace {

constexpr double gibibyte = 1 << 30;
constexpr std::size_t shown_workspace = std::size_t{1} << 16;  ///< bytes; less is not worth a word

double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / gibibyte;
}

/// What a network of tokens is measured in.
struct Throughput {
  std::string_view unit;
  double of_sample;
};
Throughput throughput_of(const TrainingTask& task) {
  if (task.input.vocab_size > 0 && task.input.shape.rank() > 0)
    return {"tokens", static_cast<double>(task.input.shape[0])};
  return {"samples", 1};
}

double per_second(const GpuPrediction& prediction, const Throughput& throughput, double seconds) {
  return static_cast<double>(prediction.step_samples()) * throughput.of_sample / seconds;
}

/// What stands behind each step of the plan.
std::vector<std::string> notes_of(const GpuPrediction& prediction) {
  std::vector<std::string> notes;
  for (std::size_t at = 0; at < prediction.steps.size(); ++at) {
    const PredictedStep& step = prediction.steps[at];
    std::string& note = notes.emplace_back();
    if (step.work.empty()) continue;
    note = fmt::format("{:.1f} us, {}", 1e6 * step.time.seconds,
                       limit_name(step, prediction.plan.compute_dtype));
    const kernels::Kernel& kernel = *prediction.plan.launch_of(prediction.plan.steps[at])->kernel;
    if (const auto plan = kernel.library_plan()) note += ", " + plan->name.substr(0, plan->name.find('_'));
    if (kernel.workspace_bytes() >= shown_workspace)
      note +=
          fmt::format(", workspace {:.1f} MiB", static_cast<double>(kernel.workspace_bytes()) / (1 << 20));
  }
  return notes;
}

/// Steps of one name, and what limits most of their time.
struct Kind {
  std::string name;
  int count = 0;
  double seconds = 0, flops = 0, bytes = 0;
  std::vector<std::pair<std::string, double>> limits;

  void add(const PredictedStep& step, DType dtype) {
    ++count;
    seconds += step.time.seconds;
    for (const KernelWork& work : step.work) {
      flops += work.flops;
      bytes += work.bytes;
    }
    const std::string limit = limit_name(step, dtype);
    const auto known = std::ranges::find(limits, limit, &std::pair<std::string, double>::first);
    (known != limits.end() ? known->second : limits.emplace_back(limit, 0).second) += step.time.seconds;
  }
};

std::vector<Kind> kinds_of(const GpuPrediction& prediction) {
  std::vector<Kind> kinds;
  for (const PredictedStep& step : prediction.steps) {
    if (step.work.empty()) continue;
    auto kind = std::ranges::find(kinds, step.name, &Kind::name);
    if (kind == kinds.end()) kind = kinds.insert(kind, {.name = step.name});
    kind->add(step, prediction.plan.compute_dtype);
  }
  std::ranges::sort(kinds, std::greater{}, &Kind::seconds);
  return kinds;
}

void print_kinds(const GpuPrediction& prediction) {
  const std::vector<Kind> kinds = kinds_of(prediction);
  double all = 0;
  for (const Kind& kind : kinds) all += kind.seconds;
  std::size_t width = 4;
  for (const Kind& kind : kinds) width = std::max(width, kind.name.size());
  fmt::print("\n{:<{}} {:>5} {:>9} {:>7} {:>10} {:>9}  limited by\n", "kind", width, "count", "ms", "share",
             "GFLOP", "GB");
  for (const Kind& kind : kinds) {
    std::string limits;
    for (const auto& [name, seconds] : kind.limits) {
      limits += fmt::format("{}{}", limits.empty() ? "" : "; ", name);
      if (kind.limits.size() > 1) limits += fmt::format(" {:.0f}%", 100 * seconds / kind.seconds);
    }
    fmt::print("{:<{}} {:>5} {:>9.3f} {:>6.1f}% {:>10.1f} {:>9.3f}  {}\n", kind.name, width, kind.count,
               1e3 * kind.seconds, 100 * kind.seconds / all, 1e-9 * kind.flops, 1e-9 * kind.bytes, limits);
  }
}

void print_factors(const GpuFigures& gpu) {
  fmt::print("\nof {:.0f} GB/s and of {:.1f} (f32), {:.1f} (tf32), {:.1f} (half) TFLOP/s ({}) are reached\n",
             1e-9 * gpu.memory, 1e-12 * gpu.f32, 1e-12 * gpu.tf32, 1e-12 * gpu.half, gpu.source);
  for (const Efficiency& kind : efficiencies) {
    fmt::print("  {:<20} {:.2f} of FLOP/s: {}\n  {:<20} {:.2f} of memory: {}\n", kind.name, kind.of_flops,
               kind.flops_source, "", kind.of_memory, kind.memory_source);
  }
  fmt::print("  a launch takes {:.1f} us beside its work, a step {:.0f} us beside its kernels\n",
             1e6 * least_kernel_seconds, 1e6 * step_overhead_seconds);
  fmt::print(
      "  a product takes a multiprocessor of {:.0f} for each {} x {} of its result, in f32 for each {} x "
      "{}\n",
      gpu.multiprocessors, tensor_core_tile.longer, tensor_core_tile.shorter, f32_tile.longer,
      f32_tile.shorter);
}

void print_memory(const GpuPrediction& prediction) {
  fmt::print("\nmemory: {:.2f} GiB planned and {:.0f} for CUDA, its libraries and NCCL, of {:.1f}: {}\n",
             gib(gpu_bytes(prediction.need)), gib(unplanned_bytes), gib(prediction.gpu.memory_bytes),
             prediction.fits() ? "it fits" : "it does not fit");
  if (prediction.largest_batch == 0) {
    fmt::print("largest batch per rank that fits: none\n");
  } else {
    fmt::print("largest batch per rank that fits: {} (to {:.1f}%)\n", prediction.largest_batch,
               100 * batch_tolerance);
  }
}

void print_ranks(const GpuPrediction& prediction, const std::vector<Cluster>& clusters,
                 const Throughput& throughput) {
  fmt::print("\n{:>6} {:>6} {:>10} {:>12} {:>11} {:>14} {:>11}\n", "ranks", "nodes", "step ms", "exchange ms",
             "exposed ms", fmt::format("{}/s", throughput.unit), "efficiency");
  for (std::size_t row = 0; row < clusters.size(); ++row) {
    const GpuStep& step = prediction.ranks[row];
    const double rate = clusters[row].ranks * per_second(prediction, throughput, step.seconds());
    fmt::print("{:>6} {:>6} {:>10.3f} {:>12.3f} {:>11.3f} {:>14.0f} {:>10.1f}%\n", clusters[row].ranks,
               clusters[row].nodes(), 1e3 * step.seconds(), 1e3 * step.timeline.exchange,
               1e3 * step.timeline.exposed(), rate,
               100 * prediction.ranks.front().seconds() / step.seconds());
  }
  const GpuStep& one = prediction.ranks.front();
  fmt::print("a step's input takes {:.3f} ms over PCIe, {}\n", 1e3 * one.input_seconds,
             one.input_seconds > one.timeline.step ? "which limits it" : "beside compute");
  if (throughput.of_sample > 1) fmt::print("a sample has {} tokens\n", throughput.of_sample);
}

void print_published(const GpuPrediction& prediction, const TrainingTask& task,
                     const Throughput& throughput) {
  if (!prediction.options.model_args.empty()) return;
  for (const PublishedFigure& figure : published_figures) {
    const bool is_task = figure.model == task.model.name && figure.sample == task.input.shape.str();
    if (!is_task || figure.gpu != prediction.gpu.name) continue;
    const double predicted = per_second(prediction, throughput, prediction.ranks.front().seconds());
    fmt::print("published: {:.0f} {}/s in {} ({}); this prediction, in {}: {:.0f}, {:+.1f}%\n",
               figure.per_second, figure.unit, figure.amp, figure.source,
               prediction.options.amp == "off" ? "fp32" : prediction.options.amp, predicted,
               100 * (predicted / figure.per_second - 1));
  }
}

void print_savings(const GpuPrediction& prediction, const Throughput& throughput) {
  if (prediction.savings.empty()) return;
  double seconds = prediction.ranks.front().seconds();
  fmt::print("\nwhat is missing, and the {}/s of a step that has this and all above it\n", throughput.unit);
  for (const Saving& saving : prediction.savings) {
    seconds = std::max(seconds - saving.seconds, 1e-9);
    fmt::print("  {:>12.0f}  {:.3f} ms: {}\n", per_second(prediction, throughput, seconds),
               1e3 * saving.seconds, saving.what);
  }
}

void print_one(const Options& options, const TrainingTask& task, const GpuQuestion& question) {
  const GpuPrediction prediction = predict_gpu(options, task, question);
  const Throughput throughput = throughput_of(task);
  fmt::print("{} on {}: predicted, never measured here\n{}", task.model.name, prediction.gpu.device_name,
             to_text(prediction.plan, prediction.need, notes_of(prediction)));
  print_factors(prediction.gpu.figures);
  print_kinds(prediction);
  print_memory(prediction);
  print_ranks(prediction, question.clusters, throughput);
  print_published(prediction, task, throughput);
  print_savings(prediction, throughput);
}

void print_all(const Options& options, const TrainingTask& task, const std::vector<Cluster>& clusters) {
  const Throughput throughput = throughput_of(task);
  const int ranks = clusters.back().ranks;
  fmt::print("{}, batch {} per rank, {} rank{}: predicted, never measured here\n", task.model.name,
             batch_size_per_rank(options, ranks), ranks, ranks == 1 ? "" : "s");
  fmt::print("{:<10} {:>5} {:>10} {:>8} {:>14} {:>10} {:>14}\n", "GPU", "fits", "GiB", "of", "largest batch",
             "step ms", fmt::format("{}/s", throughput.unit));
  for (const std::string& name : gpu_names()) {
    try {
      const GpuPrediction prediction = predict_gpu(options, task, {find_gpu(name), clusters});
      const GpuStep& step = prediction.ranks.back();
      fmt::print("{:<10} {:>5} {:>10.2f} {:>8.1f} {:>14} {:>10.3f} {:>14.0f}\n", name,
                 prediction.fits() ? "yes" : "no", gib(prediction.needed_bytes()),
                 gib(prediction.gpu.memory_bytes), prediction.largest_batch, 1e3 * step.seconds(),
                 ranks * per_second(prediction, throughput, step.seconds()));
    } catch (const DeviceError& error) {
      fmt::print("{:<10} {}\n", name, error.what());
    }
  }
}

}  // namespace

void print_plan_for_gpu(const Options& options, const ScalingRequest& request) {
  if (!kernels::cuda_is_built_in()) {
    throw UsageError("--for asks cuDNN, and CUDA is not built in: configure with -DLOCKSTEP_CUDA=ON");
  }
  const std::vector<Cluster> clusters = clusters_of(request);
  if (request.gpu == "all") return print_all(options, make_task_without_data(options), clusters);
  const GpuProfile gpu = find_gpu(request.gpu);
  print_one(options, make_task_without_data(options), {gpu, clusters});
}

}  // namespace lockstep::runtime
