#pragma once

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

}  // namespace lockstep
