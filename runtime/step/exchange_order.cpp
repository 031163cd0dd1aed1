#include "runtime/step/exchange_order.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace lockstep::runtime {
namespace {

/// By how much a step changes the number of early exchanges: it settles within some tens of steps, and the
/// noise of single ones hardly moves it.
constexpr double gain = 0.25;

}  // namespace

void ExchangeOrder::hand_over(std::size_t exchange, std::size_t part, bool may_be_held) {
  if (!may_be_held) {
    observe_queue();
    return post(exchange, part);
  }
  if (goes_early(offered_++)) return post(exchange, part);
  held_.push_back({exchange, part});
}

bool ExchangeOrder::goes_early(std::size_t place) const {
  const auto early_among_first = [&](double count) { return std::ceil(count * early_ / holdable_); };
  const auto before = static_cast<double>(place);
  return early_among_first(before + 1) > early_among_first(before);
}

/// Backward ends with what may not be held. One exchange under way is right: with none the network is idle.
void ExchangeOrder::observe_queue() {
  if (is_observed_) return;
  is_observed_ = true;
  vote_ = gain * (1 - static_cast<double>(queue_.pending()));
}

void ExchangeOrder::follow(double vote) {
  early_ = std::clamp(early_ + vote, 0.0, holdable_);
}

void ExchangeOrder::hand_over_held() {
  for (const Held& held : std::views::reverse(held_)) post(held.exchange, held.part);
  held_.clear();
  offered_ = 0;
  is_observed_ = false;
}

}  // namespace lockstep::runtime
