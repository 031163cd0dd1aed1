#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simgpu/machine/executor.h"
#include "tests/simgpu/machine/memory.h"
#include "tests/simgpu/machine/order_checker.h"
#include "tests/simgpu/machine/pinned_guards.h"

namespace simgpu {

/// Takes operations with their waits: checks what they touch and in which order, and hands them to the
/// executor. Keeps what the host knows to be done.
class Scheduler {
 public:
  Scheduler(const Settings& settings, std::mutex& mutex, Memory& memory);

  struct Request {
    Operation operation;
    NodeInfoPtr info;
    int device;
    int priority;
    Actor actor;
    std::vector<NodePtr> waits_for;
  };

  Actor new_actor() { return next_actor_++; }
  NodePtr schedule(Lock& lock, Request request);

  /// The host waits, and from then on knows.
  void wait_for(Lock& lock, const NodePtr& node);
  void wait_for_device(Lock& lock, int device);
  /// Runs all that is pending on the device; the host does not learn of it.
  void run_device(Lock& lock, int device) { executor_.run_until_done(lock, executor_.pending(device)); }

  /// Whether it is done; when it is the host knows.
  bool poll(Lock& lock, const NodePtr& node);

  /// Mistake "use after free in flight" when the host does not know that all uses of the block are done.
  /// `unwinding`: waits instead, so that an error that is on its way stays the one that is told.
  void finish_uses(Lock& lock, const Block& block, const Origin& origin, bool unwinding);
  void forget(const Block& block);

  PinnedGuards& guards() { return guards_; }

 private:
  Use resolve(const Access& access, const Node& node);
  void check_block(const Block& block, const Node& node) const;
  void check_pads_after(Node& node, const std::vector<Use>& uses);
  void guard_pinned(Node& node, const std::vector<Use>& uses);
  void host_learns(const VectorClock& clock);

  std::mutex& mutex_;
  Memory& memory_;
  OrderChecker order_;
  PinnedGuards guards_;
  VectorClock host_;
  std::vector<VectorClock> of_device_;  ///< of all nodes so far
  std::vector<std::uint64_t> ticks_;    ///< of each actor
  Actor next_actor_ = host_actor + 1;
  std::uint64_t next_sequence_ = 0;
  Trace trace_;
  Executor executor_;  // last: its thread ends first
};

}  // namespace simgpu
