#pragma once

#include <algorithm>
#include <chrono>

#include "kernels/base/clock.h"

namespace lockstep {

using Seconds = std::chrono::duration<double>;

/// What the clock can count: a wait of more than a century is one of a century, since nanoseconds overflow
/// after three.
constexpr Clock::duration clock_duration(Seconds seconds) {
  constexpr Seconds century{100 * 365.25 * 24 * 3600};
  return std::chrono::duration_cast<Clock::duration>(std::min(seconds, century));
}

/// A point in time that a wait may not outlive. Nothing in Lockstep waits without one.
class Deadline {
 public:
  static Deadline in(Seconds seconds) { return Deadline(Clock::now() + clock_duration(seconds)); }

  static Deadline at(Clock::time_point when) { return Deadline(when); }

  bool passed() const { return Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }

  /// Time left, never negative.
  Seconds left() const {
    const Seconds rest = when_ - Clock::now();
    return rest < Seconds::zero() ? Seconds::zero() : rest;
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

/// A timeout for poll(2): the time left, rounded up, at most a quarter of an hour (callers look again).
inline int poll_milliseconds(Seconds left) {
  return static_cast<int>(std::min(left.count() * 1000, 900'000.0)) + 1;
}

}  // namespace lockstep
