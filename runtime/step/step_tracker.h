#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// The current activity of the main thread, which writes it at every step of a plan; the watchdog's thread
/// reads it.
class StepTracker {
 public:
  enum class Phase : std::uint8_t { setting_up, loading, computing, evaluating, saving };

  /// Registers the labels of a plan's steps, such as "conv1 conv2d". Returns the plan's number.
  std::size_t add_plan(std::vector<std::string> labels);

  void enter(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void start_step(std::int64_t number) { number_.store(number, std::memory_order_relaxed); }
  void run(std::size_t plan, std::size_t step) {
    position_.store(static_cast<std::uint64_t>(plan) << 32 | step, std::memory_order_relaxed);
  }

  /// "step 12, conv1 conv2d"
  std::string describe() const;

 private:
  std::string label_at(std::uint64_t position) const;

  mutable std::mutex mutex_;
  std::vector<std::vector<std::string>> labels_;  ///< by plan and step; guarded by mutex_
  std::atomic<Phase> phase_{Phase::setting_up};
  std::atomic<std::int64_t> number_{0};
  std::atomic<std::uint64_t> position_{0};  ///< plan in the upper half, step in the lower
};

}  // namespace lockstep::runtime
