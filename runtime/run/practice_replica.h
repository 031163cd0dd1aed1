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
  PracticeReplica(const Options& options, std::span<const Plan> plans, kernels::Device& device,
                  comm::Communicator& node);

  /// From now on steps are replayed as CUDA graphs, from the third of a plan on.
  void replay(Executor::WithoutGraph without) { executor_.use_graphs(without); }

  /// Returns the seconds that it took.
  double run(const Plan& plan);
  /// Calls `of(step, begin, end)` for each step of the plan that was run last, but for views and what was
  /// left out.
  template <class Of>
  void for_each_step(Of of) const {
    Clock::time_point begin = start_;
    for (std::size_t step = 0; step < ends_.size(); ++step) {
      if (ends_[step] == Clock::time_point()) continue;
      of(step, begin, ends_[step]);
      begin = ends_[step];
    }
  }

  const ReplicaMemory& memory() const { return memory_; }

 private:
  void set_input(const Options& options, kernels::Device& device);

  const std::span<const Plan> plans_;
  ReplicaMemory memory_;
  Executor executor_;
  Clock::time_point start_;
  std::vector<Clock::time_point> ends_;  ///< by step; none of those that did not run
};

}  // namespace lockstep::runtime
