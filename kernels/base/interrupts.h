#pragma once

#include <chrono>
#include <optional>

#include "kernels/base/clock.h"

namespace lockstep {

/// Tells a second ^C, which asks to end at once, from a first one that arrives twice: from the terminal and
/// passed on by a launcher that shares it, or from `timeout -s INT`, which signals a process and its group.
class Interrupts {
 public:
  /// A SIGINT came.
  bool is_second(Clock::time_point when) {
    if (!first_) first_ = when;
    return when - *first_ > same_key;
  }

 private:
  static constexpr std::chrono::milliseconds same_key{500};

  std::optional<Clock::time_point> first_;
};

}  // namespace lockstep
