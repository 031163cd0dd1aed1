#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/performance/gpu_profile.h"
#include "runtime/performance/kernel_work.h"
#include "runtime/performance/scaling.h"
#include "runtime/performance/timeline.h"
#include "runtime/plan/plan.h"

namespace lockstep::runtime {

enum class Limit { flops, memory, launches };

struct PredictedTime {
  double seconds = 0;
  Limit limit = Limit::launches;
};

/// The slower of arithmetic and memory, behind what each launch takes by itself. `limit`: the greatest of the
/// three.
PredictedTime time_of(const KernelWork& work, const GpuFigures& gpu);

/// A step of the plan on one GPU.
struct PredictedStep {
  std::string name;  ///< of what it computes: "conv2d"
  std::vector<KernelWork> work;
  PredictedTime time;
};

/// By step of the plan.
std::vector<PredictedStep> predict_steps(const Plan& plan, const GpuFigures& gpu);

/// "memory", "tensor cores (bf16)", "f32 units" or "launches".
std::string limit_name(const PredictedStep& step, DType compute_dtype);

/// What an all-reduce of `bytes` takes: within a node over NVLink, or PCIe without; between nodes over the
/// cluster's link. A ring in both, one behind the other.
double exchange_seconds(const Cluster& cluster, const GpuFigures& gpu, double bytes);
/// The same for lists of rows, each of `bytes`, of all ranks.
double gather_seconds(const Cluster& cluster, const GpuFigures& gpu, double bytes);

/// The step of `cluster.ranks`, for whom `plan` was made with exchanges that are stream-ordered. Of several
/// micro-batches all compute as the last does. `input_seconds` of the copy of a batch run beside it.
struct GpuStep {
  Timeline timeline;
  double input_seconds = 0;

  double seconds() const { return timeline.step > input_seconds ? timeline.step : input_seconds; }
};
GpuStep predict_on_gpu(const Plan& plan, const std::vector<PredictedStep>& steps, const Cluster& cluster,
                       const GpuFigures& gpu);

/// What Lockstep does not do, and what the step would save by it.
struct Saving {
  std::string what;
  double seconds = 0;
};
/// The greatest first; only those that save anything.
std::vector<Saving> possible_savings(const Plan& plan, const std::vector<PredictedStep>& steps,
                                     const GpuFigures& gpu);

}  // namespace lockstep::runtime
