#pragma once

#include <cstdint>
#include <vector>

#include "runtime/performance/gpu_profile.h"
#include "runtime/performance/roofline.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// What is asked of a GPU that need not be there.
struct GpuQuestion {
  GpuProfile gpu;
  std::vector<Cluster> clusters;  ///< by number of ranks; the first is one rank
};

/// The training step of the options on that GPU: predicted, never measured.
struct GpuPrediction {
  GpuProfile gpu;
  Options options;  ///< with what they mean on that GPU
  Plan plan;        ///< of one rank
  std::vector<PredictedStep> steps;
  MemoryNeed need;
  std::int64_t largest_batch = 0;  ///< per rank and micro-batch that fits, to `batch_tolerance`; 0: none
  std::vector<GpuStep> ranks;      ///< by cluster of the question
  std::vector<Saving> savings;

  std::size_t needed_bytes() const;  ///< with what is not planned
  bool fits() const { return needed_bytes() <= gpu.memory_bytes; }
  std::int64_t step_samples() const { return plan.key().batch * plan.request.micro_batches; }
};

/// Steps between batches that are tried are no more than this share of the batch.
inline constexpr double batch_tolerance = 1.0 / 128;

/// UsageError when this build has no CUDA, as `kernels::make_described_cuda_device`; DeviceError where the
/// libraries have no kernel for that GPU.
GpuPrediction predict_gpu(const Options& options, const TrainingTask& task, const GpuQuestion& question);

}  // namespace lockstep::runtime
