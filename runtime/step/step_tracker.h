#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// What the main thread does just now, written by it at every step of a plan and read by the watchdog's
/// thread.
class StepTracker {
 public:
  enum class Phase : std::uint8_t { setting_up, loading, computing, evaluating, saving };

  /// What the steps of a plan are called: "conv1 conv2d". Returns the plan's number.
  std::size_t add_plan(std::vector<std::string> steps);

  void enter(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void start_step(std::int64_t number) { number_.store(number, std::memory_order_relaxed); }
  void run(std::size_t plan, std::size_t step) {
    place_.store(static_cast<std::uint64_t>(plan) << 32 | step, std::memory_order_relaxed);
  }

  /// "step 12, conv1 conv2d"
  std::string text() const;

 private:
  std::string name_of(std::uint64_t place) const;

  mutable std::mutex mutex_;
  std::vector<std::vector<std::string>> plans_;  ///< guarded by mutex_
  std::atomic<Phase> phase_{Phase::setting_up};
  std::atomic<std::int64_t> number_{0};
  std::atomic<std::uint64_t> place_{0};
};

}  // namespace lockstep::runtime
