#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/deadline.h"
#include "runtime/output/report.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// The last measurements of one kind, in memory reserved once; for medians over a run.
class Measurements {
 public:
  Measurements() { values_.reserve(capacity); }

  void add(std::int64_t nanoseconds) {
    if (values_.size() < capacity) {
      values_.push_back(nanoseconds);
    } else {
      values_[next_++ % capacity] = nanoseconds;
    }
  }

  /// The last ones, `most` at most, the oldest first.
  std::vector<std::int64_t> last(std::size_t most) const;

  /// The value below which `share` of the measurements lie, in milliseconds; 0 without measurements.
  double quantile_ms(double share) const;
  double median_ms() const { return quantile_ms(0.5); }

 private:
  static constexpr std::size_t capacity = 1 << 15;

  std::vector<std::int64_t> values_;
  std::size_t next_ = 0;
};

/// Step times, waits and throughput of a run, without the time of evaluations and checkpoints.
class RunMetrics {
 public:
  void start();
  /// Records a step over `samples` samples of all ranks that was completed at `ended`; `data_wait_ns`: wait
  /// for its batch.
  void step_done(const StepTiming& timing, std::int64_t data_wait_ns, std::int64_t samples,
                 Clock::time_point ended = Clock::now());
  /// Stops the clock for an evaluation or a checkpoint, until `resume`.
  void pause() { paused_at_ = Clock::now(); }
  void resume();

  /// Where figures are shown, each time of the steps since the last time there.
  enum class Reader { console, log };
  Progress take_window(Reader reader);
  double samples_per_s() const;
  void fill(Summary& summary) const;

  /// For a group whose ranks do not see when their peers come: the exchange times of the last steps, as a
  /// text, and what follows from those of all ranks. An exchange ends everywhere at once, so in each step the
  /// rank with the shortest time came last, and what another took beyond that it waited: no less, and more
  /// where ranks have waited for each other in turn.
  std::string transfers() const;
  void tell_skew(std::span<const std::string> transfers_of_ranks);

 private:
  static constexpr std::size_t compared_steps = 512;
  /// Throughput is steady from step 20 on; in shorter runs from step 2, and one step has its own.
  static constexpr std::int64_t steady_from_step = 20;

  struct Window {
    Clock::time_point start;
    std::int64_t steps = 0;
    std::int64_t samples = 0;
    std::int64_t exposed_ns = 0;
    std::int64_t data_wait_ns = 0;
  };

  Clock::time_point last_{};
  Clock::time_point paused_at_{};
  std::int64_t steps_ = 0;
  Window all_;                     ///< from step 2; of the first while there is no other
  Window steady_;                  ///< from step 20
  std::array<Window, 2> windows_;  ///< of each reader, since take_window
  Measurements step_;
  Measurements exposed_;
  Measurements transfer_;
  Measurements skew_;
  Measurements data_wait_;
};

/// Samples this process's proportional set size (shared pages are divided among the processes that map them),
/// at growing intervals.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// The highest so far, including now.
  std::int64_t peak_bytes();
  /// Also at its own intervals.
  void sample();

 private:
  void run();

  std::atomic<std::int64_t> peak_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::runtime
