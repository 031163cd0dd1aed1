#pragma once

#include <cstddef>
#include <vector>

#include "runtime/plan/holding_policy.h"
#include "runtime/step/exchange_queue.h"

namespace lockstep::runtime {

/// The order in which the exchanges of a step go to the exchange queue. On a slow network not all that are
/// ready in backward are through at its end, and those ready last, of the first layers, are what the next
/// forward waits for. So some of those that may be held are, and go when backward has ended: the last ready
/// first, as forward reads their parameters. `HoldingPolicy` says which.
class ExchangeOrder {
 public:
  /// `holdable`: how many exchanges of a step may be held.
  ExchangeOrder(ExchangeQueue& queue, std::size_t exchanges, std::size_t holdable)
      : queue_(queue), tickets_(exchanges), policy_(holdable) {
    held_.reserve(holdable);  // a step allocates nothing
  }

  /// `part` is what the queue runs for `exchange`.
  void hand_over(std::size_t exchange, std::size_t part, bool may_be_held);
  /// The end of backward.
  void hand_over_held();
  void wait(std::size_t exchange) { queue_.wait(tickets_[exchange]); }

  /// This rank's vote of the last step, and the mean of all ranks.
  double vote() const { return vote_; }
  void follow(double vote) { policy_.follow(vote); }

 private:
  struct Held {
    std::size_t exchange;
    std::size_t part;
  };
  void post(std::size_t exchange, std::size_t part) { tickets_[exchange] = queue_.post(part); }
  void observe_queue();

  ExchangeQueue& queue_;
  std::vector<ExchangeQueue::Ticket> tickets_;  ///< by exchange: of the last time
  std::vector<Held> held_;
  std::size_t offered_ = 0;  ///< of those that may be held
  HoldingPolicy policy_;
  double vote_ = 0;
  bool is_observed_ = false;
};

}  // namespace lockstep::runtime
