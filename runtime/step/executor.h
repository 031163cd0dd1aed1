#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "runtime/step/exchange_queue.h"
#include "runtime/step/memory.h"
#include "runtime/step/step_tracker.h"

namespace lockstep::runtime {

/// Where the time of one step went, in nanoseconds.
struct StepTiming {
  std::int64_t total_ns = 0;
  std::int64_t launch_ns = 0;    ///< until all of it was launched: on a CPU the whole step
  std::int64_t exposed_ns = 0;   ///< compute waited for an exchange, or did one itself
  std::int64_t transfer_ns = 0;  ///< of all buckets, hidden or not
  std::int64_t skew_ns = 0;      ///< of it, waiting for the last peer
};

/// Binds plans to a replica's memory, a plan at its first use, and walks them. It decides nothing: what is
/// done, in which order and on which stream is in the plan. A bound plan does no look-up and no allocation.
class Executor {
 public:
  Executor(kernels::Device& device, comm::Communicator& communicator, const ReplicaMemory& memory);

  /// The compute stream: what a plan reads is set in its order.
  kernels::Stream& stream() { return *streams_.front(); }

  /// From now on a plan is captured the second time it runs on a slot, and replayed after that: the first
  /// loads what a capture may not load.
  void use_graphs() { uses_graphs_ = true; }

  /// Launches `plan` on the batch in `slot`, with what `ReplicaMemory::host_input` says of it. On a CPU it is
  /// over when this returns.
  StepTiming launch(const Plan& plan, std::size_t slot);

  /// The same, to its end.
  StepTiming run(const Plan& plan, std::size_t slot);

  /// For the watchdog, which may outlive this.
  const std::shared_ptr<StepTracker>& step_tracker() const { return step_tracker_; }

 private:
  enum class Action : std::uint8_t {
    launch,
    record,
    wait,
    all_reduce,
    hand_over,
    join,
    copy_to_device,
    copy_to_host
  };
  struct BoundStep {
    Action action = Action::launch;
    bool behind_compute = false;
    bool is_timed = false;  ///< compute stands still meanwhile
    std::uint32_t label = 0;
    kernels::Stream* stream = nullptr;
    kernels::BoundKernel* kernel = nullptr;
    kernels::Event* event = nullptr;
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t index = 0;  ///< bucket, bytes of a copy, or where in `queued` what is handed over begins
  };

  /// A plan on one batch slot: its steps, and the kernels that they launch.
  struct BoundSlot {
    std::vector<std::unique_ptr<kernels::BoundKernel>> kernels;
    std::vector<BoundStep> steps;  ///< of the thread that walks
    /// Of the exchange queue's thread; what is handed over at once ends with a `join`.
    std::vector<BoundStep> queued;
    bool has_run = false;
    std::unique_ptr<kernels::CapturedGraph> graph;
  };
  struct BoundPlan {
    PlanKey key;
    std::size_t labels = 0;  ///< of its steps, in `step_tracker_`
    std::array<BoundSlot, batch_slot_count> slots;
  };

  struct Exchange {
    std::vector<comm::ArenaRange> ranges;
    std::string first_parameter;
  };

  BoundPlan& bound(const Plan& plan);
  void bind(const Plan& plan, BoundPlan& into);
  BoundSlot bind_slot(const Plan& plan, std::size_t slot);
  BoundStep bind_step(const Plan& plan, const Step& step, std::size_t slot) const;
  void replay_or_walk(BoundPlan& plan, BoundSlot& slot);
  void walk(const BoundPlan& plan, const BoundSlot& slot);
  void walk_queued(std::size_t first);
  void run(const BoundStep& step);
  void all_reduce(const BoundStep& step);

  kernels::Device& device_;
  comm::Communicator& communicator_;
  const ReplicaMemory& memory_;
  std::array<std::unique_ptr<kernels::Stream>, 2> streams_;  ///< by StreamName
  std::vector<std::unique_ptr<kernels::Event>> events_;      ///< of all plans, which run one at a time
  std::unique_ptr<kernels::Event> run_done_;
  std::vector<Exchange> exchanges_;  ///< by bucket, of all plans
  std::vector<std::unique_ptr<BoundPlan>> plans_;
  const BoundSlot* walking_ = nullptr;
  bool uses_graphs_ = false;
  StepTiming timing_;
  std::shared_ptr<StepTracker> step_tracker_ = std::make_shared<StepTracker>();
  std::unique_ptr<ExchangeQueue> queue_;  ///< last: its thread uses the rest
};

}  // namespace lockstep::runtime
