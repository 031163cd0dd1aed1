#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "kernels/base/deadline.h"
#include "runtime/plan/held_exchanges.h"
#include "runtime/step/exchange_queue.h"

namespace lockstep::runtime {

/// The order in which the exchanges of a step go to the exchange queue. On a slow network not all that are
/// ready in backward are through at its end, and those ready last, of the first layers, are what the next
/// forward waits for. So some of those that may be held are (`HeldExchanges`).
class ExchangeOrder {
 public:
  /// `steps`: of the plan.
  ExchangeOrder(ExchangeQueue& queue, std::size_t exchanges, std::span<const Step> steps)
      : queue_(queue), tickets_(exchanges), held_(steps) {}

  /// `part` is what the queue runs for `exchange`.
  void hand_over(std::size_t exchange, std::size_t part, bool may_be_held);
  /// The end of backward.
  void hand_over_held();
  void wait(std::size_t exchange) { queue_.wait(tickets_[exchange]); }

  /// What share an exchange took on this rank of the last step's backward, from when the first that may be
  /// held was ready; and the mean of all ranks.
  double share() const { return share_; }
  void follow(double share) { held_.follow(share); }

 private:
  struct Part {
    std::size_t exchange;
    std::size_t part;
  };
  void post(const Part& part) { tickets_[part.exchange] = queue_.post(part.part); }
  void measure();

  ExchangeQueue& queue_;
  std::vector<ExchangeQueue::Ticket> tickets_;  ///< by exchange: of the last time
  HeldExchanges<Part> held_;
  std::optional<Clock::time_point> first_ready_;  ///< in this backward
  double share_ = 0;
};

}  // namespace lockstep::runtime
