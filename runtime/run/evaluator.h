#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "runtime/output/console.h"
#include "runtime/output/report.h"
#include "runtime/run/stop_request.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

struct EvaluationOptions {
  std::int64_t batch_size = 64;
  std::vector<std::int64_t> lengths{};  ///< as data::LoaderOptions has them
  int num_workers = 1;
  int prefetch_factor = 2;
  bool pins_memory = true;  ///< of batches for a GPU
  Seconds timeout{600};
  std::int64_t samples = 0;  ///< so many of the data set, as data::chosen_sample chooses them; 0: all
  std::string source{};      ///< of the samples, for reports
  Activity* activity = nullptr;
  EvaluationProgress::Tell tell{};  ///< what to do with lines on how far it is; empty: they are not made
  /// Called after each batch, as often on every rank: rows of this rank that it had, perhaps 0.
  std::function<void(std::int64_t rows)> batch_done{};
};

using PlanOfLength = std::function<const Plan&(std::int64_t length)>;

/// Exact scores over a data set: every sample counts once, whatever the world size. Collective. Runs
/// the plan of each batch's length on batch slot `slot`. Nothing, on all ranks alike, when one of them was
/// asked to stop.
std::optional<Evaluation> evaluate(kernels::Device& device, comm::Communicator& communicator,
                                   ReplicaMemory& memory, Executor& executor, const PlanOfLength& plan_of,
                                   std::size_t slot, const data::DatasetPtr& dataset,
                                   const EvaluationOptions& options, const StopRequest& stop_request);

}  // namespace lockstep::runtime
