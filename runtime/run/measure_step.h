#pragma once

#include <vector>

#include "comm/communicator.h"
#include "kernels/device.h"
#include "runtime/options/options.h"
#include "runtime/performance/scaling.h"
#include "runtime/run/task.h"

namespace lockstep::runtime {

/// The step of a training run, measured.
struct MeasuredStep {
  std::vector<Plan> plans;  ///< of its micro-batches, in their order without repetitions; without exchange
  NodeTimes times;
};

/// Walks the step of the options' training run, on data without meaning, on all ranks of `node` at the same
/// time, and exchanges each bucket between them. Medians of many steps, each as long as on its slowest rank.
/// Collective; on CPUs. `Options::amp` as `amp_on` gives it.
MeasuredStep measure_step(const Options& options, const TrainingTask& task, kernels::Device& device,
                          comm::Communicator& node);

}  // namespace lockstep::runtime
