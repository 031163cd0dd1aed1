#pragma once

#include <sched.h>

#include <cstdint>

#include "runtime/step/exchange_queue.h"

namespace lockstep::runtime {

/// When the exchange queue's thread runs, where it shares a core with compute. Either it interrupts kernels,
/// which find their operands in slower caches afterwards, or it takes turns with them: it runs between two,
/// or when a long one's time slice is over. The first keeps the network busy, the second keeps compute fast.
/// So it takes turns where a step hardly waits for exchanges.
class ExchangeTurns {
 public:
  explicit ExchangeTurns(ExchangeQueue& queue) : queue_(queue) {}

  /// For the thread that computes. A system call while an exchange is pending, below a microsecond if the
  /// queue's thread sleeps.
  void between_kernels() const noexcept {
    if (queue_.pending() > 0) sched_yield();
  }

  /// A walk of a training step has taken `walk_ns`, `waited_ns` of them waiting for exchanges.
  void end_walk(std::int64_t waited_ns, std::int64_t walk_ns) noexcept;
  bool interrupts() const { return interrupts_; }

 private:
  ExchangeQueue& queue_;
  bool interrupts_ = true;  ///< as the queue's thread begins
  int walks_ = 0;           ///< since the last decision
  std::int64_t waited_ns_ = 0;
  std::int64_t walk_ns_ = 0;
};

}  // namespace lockstep::runtime
