#include "runtime/step/exchange_order.h"

#include <ranges>

namespace lockstep::runtime {

void ExchangeOrder::hand_over(std::size_t exchange, std::size_t part, bool may_be_held) {
  if (!may_be_held) {
    observe_queue();
    return post(exchange, part);
  }
  if (policy_.goes_early(offered_++)) return post(exchange, part);
  held_.push_back({exchange, part});
}

/// Backward ends with what may not be held.
void ExchangeOrder::observe_queue() {
  if (is_observed_) return;
  is_observed_ = true;
  vote_ = HoldingPolicy::vote(queue_.pending());
}

void ExchangeOrder::hand_over_held() {
  for (const Held& held : std::views::reverse(held_)) post(held.exchange, held.part);
  held_.clear();
  offered_ = 0;
  is_observed_ = false;
}

}  // namespace lockstep::runtime
