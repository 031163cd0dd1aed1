#pragma once

#include <string_view>
#include <vector>

#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// `--cuda-graph auto|on|off`: whether, and from which step, steps are replayed as captured graphs.
class CudaGraphPolicy {
 public:
  /// `obstacle`: why there can be no graphs, empty if there can. UsageError for `on` then.
  CudaGraphPolicy(std::string_view option, std::string_view obstacle);

  /// True when this step's timing completes the measurement of `auto`; `wants_graphs` then has the answer.
  bool observe(const StepTiming& timing);

  /// This rank's vote: graphs with collectives inside must be replayed by all ranks or by none.
  bool wants_graphs() const;

  bool from_the_start() const { return mode_ == Mode::on; }

 private:
  enum class Mode { on, off, measure };
  static constexpr std::size_t warm_up_steps = 5;
  static constexpr std::size_t observed_steps = 15;

  Mode mode_;
  std::size_t steps_ = 0;
  std::vector<StepTiming> observed_;
};

}  // namespace lockstep::runtime
