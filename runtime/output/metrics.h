#pragma once

#include <cstdint>

#include "kernels/base/deadline.h"
#include "runtime/output/report.h"
#include "runtime/output/statistics.h"
#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// The clockwork of a run: step times, waits and throughput. Time of evaluations is in none of them.
class RunMetrics {
 public:
  void start();
  /// A step over `samples` samples of all ranks, whose batch was waited for `data_wait_ns`, is done.
  void step_done(const StepTiming& timing, std::int64_t data_wait_ns, std::int64_t samples);
  /// Evaluation, files: not counted until `resume`.
  void pause() { paused_at_ = Clock::now(); }
  void resume();

  /// Figures since the last call.
  Progress take_window();
  double samples_per_s() const;
  void fill(Summary& summary) const;

 private:
  /// Throughput is steady from step 20 on; in shorter runs from step 2.
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
  Window all_;     ///< from step 2
  Window steady_;  ///< from step 20
  Window window_;  ///< since take_window
  Measurements step_;
  Measurements exposed_;
  Measurements transfer_;
  Measurements skew_;
  Measurements data_wait_;
};

}  // namespace lockstep::runtime
