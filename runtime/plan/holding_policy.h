#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lockstep::runtime {

/// Which of a step's exchanges that may be held go to the exchange queue as they become ready: as many as the
/// queue works through until backward ends, evenly spread, as if always the newest went. Each rank measures
/// that number; they have to agree on it, as the order is the same on all. A run follows it, and so does the
/// simulation of one.
class HoldingPolicy {
 public:
  /// `holdable`: how many exchanges of a step may be held.
  explicit HoldingPolicy(std::size_t holdable)
      : holdable_(static_cast<double>(holdable)), early_(holdable_) {}

  /// Of the exchange that is the `place`-th of those.
  bool goes_early(std::size_t place) const {
    const auto early_among_first = [&](double count) { return std::ceil(count * early_ / holdable_); };
    const auto before = static_cast<double>(place);
    return early_among_first(before + 1) > early_among_first(before);
  }

  /// By how much the number that goes early, which is not whole, should change for a rank whose queue has so
  /// many exchanges when backward ends. One under way is right: with none the network is idle.
  static double vote(std::size_t pending) { return gain * (1 - static_cast<double>(pending)); }
  /// The mean vote of all ranks.
  void follow(double vote) { early_ = std::clamp(early_ + vote, 0.0, holdable_); }

 private:
  /// Of the number in a step: it settles within some tens of steps, and the noise of single ones hardly moves
  /// it.
  static constexpr double gain = 0.25;

  double holdable_;
  double early_;
};

}  // namespace lockstep::runtime
