#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace lockstep {

/// steady_clock without the time for which the process was suspended (^Z until fg), so that no deadline
/// passes meanwhile. The process has one: a module that keeps time shares the program's.
class Clock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;

  /// Above zero: the reading at which the clock stands still. Else, negative, how long it has stood still.
  using State = std::atomic<rep>;

  static time_point now() noexcept {
    const rep state = state_->load(std::memory_order_relaxed);
    return time_point(duration(state > 0 ? state : steady() + state));
  }

  static void halt() noexcept { *state_ = steady() + *state_; }
  /// After `halt`: from its reading on.
  static void resume() noexcept { *state_ = *state_ - steady(); }

  static State& state() { return *state_; }
  static void share(State& state) { state_ = &state; }

 private:
  static rep steady() noexcept { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  static inline State own_{0};
  static inline State* state_ = &own_;
};

using Seconds = std::chrono::duration<double>;

/// What the clock can count: a wait of more than a century is one of a century, since nanoseconds overflow
/// after three.
constexpr Clock::duration clock_duration(Seconds seconds) {
  constexpr Seconds century{100 * 365.25 * 24 * 3600};
  return std::chrono::duration_cast<Clock::duration>(std::min(seconds, century));
}

/// A point in time that a wait may not outlive.
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
