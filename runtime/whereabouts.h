#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::runtime {

/// What the main thread does just now, written by it at every step of a plan and read by the watchdog's
/// thread.
class Whereabouts {
 public:
  enum class Phase : std::uint8_t { setting_up, loading, computing, evaluating, saving };

  /// What the steps of each plan are called: "forward conv1 conv2d". Before anybody reads.
  explicit Whereabouts(std::vector<std::vector<std::string>> plans) : plans_(std::move(plans)) {}

  void enter(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  void start_step(std::int64_t number) { number_.store(number, std::memory_order_relaxed); }
  void run(std::size_t plan, std::size_t step) {
    place_.store(static_cast<std::uint64_t>(plan) << 32 | step, std::memory_order_relaxed);
  }

  /// "step 12, conv1 conv2d"
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> plans_;
  std::atomic<Phase> phase_{Phase::setting_up};
  std::atomic<std::int64_t> number_{0};
  std::atomic<std::uint64_t> place_{0};
};

}  // namespace lockstep::runtime
