#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "kernels/base/deadline.h"
#include "runtime/step/anomaly.h"
#include "runtime/step/exchange_order.h"
#include "runtime/step/exchange_queue.h"
#include "runtime/step/exchange_turns.h"
#include "runtime/step/memory.h"
#include "runtime/step/step_tracker.h"

namespace lockstep::runtime {

/// Where the time of one step went, in nanoseconds.
struct StepTiming {
  std::int64_t total_ns = 0;
  std::int64_t launch_ns = 0;    ///< until everything was launched: on a CPU the whole step
  std::int64_t exposed_ns = 0;   ///< compute waited for an exchange, or did one itself
  std::int64_t transfer_ns = 0;  ///< exchanges of all buckets, hidden or not
  std::int64_t skew_ns = 0;      ///< part of transfer_ns: waiting for the last peer

  /// Adds all parts, not the total.
  void add_parts(const StepTiming& other);
  void add(const comm::ExchangeTiming& exchange);
};

/// Binds plans to a replica's memory, each at its first use, and walks them. It decides nothing: the plan
/// holds all work, its order and its streams. A launch looks the plan up among those that are bound; its
/// steps look nothing up, and nothing is allocated.
class Executor {
 public:
  Executor(kernels::Device& device, comm::Communicator& communicator, const ReplicaMemory& memory);

  /// The compute stream: writes to a plan's inputs are ordered on it.
  kernels::Stream& stream() { return *streams_.front(); }

  /// Where the device cannot make a graph of a plan: a DeviceError, or a warning, and the plan is walked.
  enum class WithoutGraph { fails, walks };
  /// From now on a plan is captured the second time it runs on a slot, and replayed after that: the first
  /// run loads modules, which a capture must not do.
  void use_graphs(WithoutGraph without = WithoutGraph::fails) { graphs_ = without; }
  /// Whether training steps are walked because there is no graph of them; the same on all ranks.
  bool walks_without_graph() const { return walks_without_graph_; }

  /// From now on, before the first launch: NonFiniteError names the first kernel whose result is not finite.
  /// Not with graphs.
  void detect_anomalies() { anomalies_.emplace(device_, memory_); }

  /// From now on it waits behind each step of a plan: a DeviceError names the step that it comes of. Not with
  /// graphs.
  void wait_after_each() { waits_after_each_ = true; }

  /// From now on each walk writes to `ends`, which has an entry for each step of the plan, when that step was
  /// done; views, and steps that are left out, write nothing. On the CPU; not for what the exchange queue
  /// runs.
  void note_step_ends(std::vector<Clock::time_point>& ends) { step_ends_ = &ends; }

  /// Launches `plan` on the batch in `slot`, with the slot's `ReplicaMemory::host_input`. On a CPU the step
  /// is complete when this returns, but for updates that it leaves to the next (`settle`).
  StepTiming launch(const Plan& plan, std::size_t slot);

  /// Waits for the exchanges and makes the updates that the last step has left to the next one: before
  /// anything else uses the replica or the communicator. Other plans do that themselves.
  void settle();

  /// What the order of exchanges follows: this rank's share, and the mean of all (`ExchangeOrder`).
  double exchange_share() const { return order_ == nullptr ? 0 : order_->share(); }
  void follow(double exchange_share) {
    if (order_ != nullptr) order_->follow(exchange_share);
  }

  /// Launches it and waits for its end.
  StepTiming run(const Plan& plan, std::size_t slot);

  /// For the watchdog, which may outlive the executor.
  const std::shared_ptr<StepTracker>& step_tracker() const { return step_tracker_; }

 private:
  enum class Action : std::uint8_t {
    launch,
    record,
    wait,
    all_reduce,
    gather_rows,
    gather_parameters,
    hand_over,
    await_compute,
    join,
    hand_over_held,
    await,
    keep_state
  };
  struct BoundStep {
    Action action = Action::launch;
    bool behind_compute = false;
    bool is_timed = false;      ///< compute waits meanwhile
    bool for_exchange = false;  ///< a wait of the compute stream's
    bool may_be_held = false;
    bool deferred = false;  ///< left out when the step before has left nothing
    std::uint32_t label = 0;
    kernels::Stream* stream = nullptr;
    kernels::BoundKernel* kernel = nullptr;
    kernels::Event* event = nullptr;
    std::size_t index = 0;     ///< of an exchange, or the part of `queued_` to hand over
    std::size_t exchange = 0;  ///< of that part
  };

  /// A plan on one batch slot: its steps, and the kernels that they launch.
  struct BoundSlot {
    std::vector<std::unique_ptr<kernels::BoundKernel>> kernels;
    std::vector<BoundStep> steps;  ///< of the thread that walks
    bool has_deferred = false;
    bool has_run = false;
    std::unique_ptr<kernels::CapturedGraph> graph;
  };
  struct BoundPlan {
    PlanKey key;
    std::size_t labels = 0;  ///< of its steps, in `step_tracker_`
    bool walks = false;      ///< there can be no graph of it
    std::array<BoundSlot, batch_slot_count> slots;
  };

  struct Exchange {
    std::vector<comm::ArenaRange> ranges;
    int bucket = -1;  ///< none for statistics and rows
    std::string what;
    bool scatters = false;  ///< the first range's sums
  };

  BoundPlan& bound(const Plan& plan);
  void list_exchanges(const ArenaPlan& arena);
  void bind(const Plan& plan, BoundPlan& into);
  BoundSlot bind_slot(const Plan& plan, std::size_t slot);
  void bind_queued(const BoundStep& next, BoundSlot& slot, bool continues);
  BoundStep bind_step(const Plan& plan, const Step& step) const;
  void replay_or_walk(BoundPlan& plan, BoundSlot& slot);
  void capture(BoundPlan& plan, BoundSlot& slot);
  void walk(const BoundPlan& plan, const BoundSlot& slot);
  void walk_queued(std::size_t part);
  void run(const BoundStep& step);
  void await_compute(kernels::Stream& stream);
  void run_to_its_end(const BoundStep& step);
  void require_finite_result(const BoundStep& step);
  comm::ExchangeTiming exchange(const BoundStep& step);

  kernels::Device& device_;
  comm::Communicator& communicator_;
  const ReplicaMemory& memory_;
  std::array<std::unique_ptr<kernels::Stream>, stream_count> streams_;  ///< by StreamName
  std::vector<std::unique_ptr<kernels::Event>> events_;  ///< of all plans, which run one at a time
  std::unique_ptr<kernels::Event> run_done_;
  std::vector<Exchange> exchanges_;  ///< of all plans, by `ExchangeNumbers` (executor_bind.cpp)
  std::vector<std::unique_ptr<BoundPlan>> plans_;
  /// Of the exchange queue's thread, in the parts that are handed over; of all plans.
  std::vector<std::vector<BoundStep>> queued_;
  const BoundSlot* completing_ = nullptr;  ///< has the deferred steps of `has_left_updates_`
  bool has_left_updates_ = false;
  std::optional<WithoutGraph> graphs_;  ///< none: all is walked
  bool walks_without_graph_ = false;
  bool waits_after_each_ = false;
  std::optional<AnomalyDetector> anomalies_;
  std::vector<Clock::time_point>* step_ends_ = nullptr;
  StepTiming timing_;
  std::atomic<std::int64_t> queued_transfer_ns_ = 0;  ///< of exchanges on the queue's thread, not yet told
  std::atomic<std::int64_t> queued_skew_ns_ = 0;
  std::shared_ptr<StepTracker> step_tracker_ = std::make_shared<StepTracker>();
  std::unique_ptr<ExchangeOrder> order_;  ///< of what `queue_` runs
  std::unique_ptr<ExchangeQueue> queue_;  ///< behind all that its thread uses
  std::optional<ExchangeTurns> turns_;    ///< of `queue_`, where updates are left to the next step
};

}  // namespace lockstep::runtime
