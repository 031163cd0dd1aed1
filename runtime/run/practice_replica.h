#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "kernels/base/deadline.h"
#include "kernels/device.h"
#include "runtime/options/options.h"
#include "runtime/plan/plan.h"
#include "runtime/run/task.h"
#include "runtime/step/executor.h"
#include "runtime/step/memory.h"

namespace lockstep::runtime {

/// A step of the options' training run, as one rank takes it without exchange: the plans of its micro-batches
/// in their order, without repetitions. Collective over the ranks of a node.
std::vector<Plan> plan_practice_step(const Options& options, const TrainingTask& task,
                                     kernels::Device& device, comm::Communicator& node);

/// A replica that steps on data without meaning.
class PracticeReplica {
 public:
  PracticeReplica(const Options& options, DType input, std::span<const Plan> plans, kernels::Device& device,
                  comm::Communicator& node);

  /// Returns the seconds that it took.
  double run(const Plan& plan);
  /// Of the last plan that was run, when each of its steps was done; those without work of their own have
  /// none.
  const std::vector<Clock::time_point>& step_ends() const { return ends_; }
  Clock::time_point start() const { return start_; }

  const ReplicaMemory& memory() const { return memory_; }

 private:
  void set_input(const Options& options, DType input);

  const std::span<const Plan> plans_;
  ReplicaMemory memory_;
  Executor executor_;
  Clock::time_point start_;
  std::vector<Clock::time_point> ends_;
};

}  // namespace lockstep::runtime
