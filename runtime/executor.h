#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "runtime/exchange_queue.h"
#include "runtime/memory.h"
#include "runtime/whereabouts.h"

namespace lockstep::runtime {

/// Where the time of one step went, in nanoseconds.
struct StepTiming {
  std::int64_t total_ns = 0;
  std::int64_t launch_ns = 0;    ///< until all of it was launched: on a CPU the whole step
  std::int64_t exposed_ns = 0;   ///< compute waited for an exchange, or did one itself
  std::int64_t transfer_ns = 0;  ///< of all buckets, hidden or not
  std::int64_t skew_ns = 0;      ///< of it, waiting for the last peer
};

/// Walks plans. Every plan is bound once per batch slot, so that a step does no look-up and no allocation.
class Executor {
 public:
  Executor(kernels::Device& device, comm::Communicator& communicator, ReplicaMemory& memory,
           std::span<const Plan> plans, const model::OptimizerOptions& optimizer);

  /// What a plan reads is set, and what it wrote is read, in the order of this stream.
  kernels::Stream& stream() { return *stream_; }

  /// From now on a plan is captured the second time it runs on a slot, and replayed after that: the first
  /// loads what a capture may not load.
  void use_graphs() { uses_graphs_ = true; }

  /// Launches plan `plan` on the batch in `slot`. What sets step state and control block has been launched on
  /// `stream()`. On a CPU it is over when this returns.
  StepTiming launch(std::size_t plan, std::size_t slot);

  /// The same, to its end.
  StepTiming run(std::size_t plan, std::size_t slot);

  /// For the watchdog, which may outlive this.
  const std::shared_ptr<Whereabouts>& whereabouts() const { return whereabouts_; }

 private:
  using BoundNodes = std::vector<std::unique_ptr<kernels::BoundKernel>>;

  /// A plan on one batch slot.
  struct BoundSlot {
    BoundNodes nodes;
    bool has_run = false;
    std::unique_ptr<kernels::LaunchGraph> graph;
  };
  struct BoundPlan {
    std::vector<Step> steps;
    bool exchanges = false;
    bool uses_exchange_stream = false;
    std::vector<BoundSlot> slots;
  };

  struct BucketEvents {
    std::unique_ptr<kernels::Event> gradients_ready;
    std::unique_ptr<kernels::Event> summed;
    std::unique_ptr<kernels::Event> parameters_free;  ///< no kernel of the step reads them any more
  };

  void bind_exchanges(const ReplicaMemory& memory);
  void bind_updates(kernels::Device& device, ReplicaMemory& memory, const model::OptimizerOptions& optimizer);
  BoundNodes bind_nodes(const Plan& plan, ReplicaMemory& memory, std::size_t slot) const;
  void replay_or_walk(std::size_t plan, std::size_t slot);
  void walk(std::size_t plan, const BoundNodes& nodes);
  void start_exchange(std::size_t bucket);
  void exchange(std::size_t bucket, bool behind_compute);
  void exchange_on_this_thread(std::size_t bucket);
  void wait_for_exchanges();
  void clip(const BoundPlan& plan);
  void update(const BoundPlan& plan, std::size_t bucket);

  kernels::Device& device_;
  comm::Communicator& communicator_;
  ArenaPlan arena_;
  std::unique_ptr<kernels::Stream> stream_;
  std::unique_ptr<kernels::Stream> exchange_stream_;
  std::vector<std::vector<comm::ArenaRange>> exchanges_;  ///< by bucket
  std::vector<BucketEvents> events_;
  std::unique_ptr<kernels::Event> backward_done_;
  std::unique_ptr<kernels::Event> step_exchanged_;
  std::unique_ptr<kernels::Event> run_done_;
  std::vector<BoundPlan> plans_;
  BoundNodes updates_;
  std::unique_ptr<kernels::BoundKernel> gradient_norm_;  ///< null if gradients are not clipped
  std::vector<kernels::KernelPtr> update_kernels_;
  bool uses_graphs_ = false;
  StepTiming timing_;
  std::shared_ptr<Whereabouts> whereabouts_;
  std::unique_ptr<ExchangeQueue> queue_;  ///< last: its thread uses the rest
};

}  // namespace lockstep::runtime
