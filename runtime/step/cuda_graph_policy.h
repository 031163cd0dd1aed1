#pragma once

#include <string_view>
#include <vector>

#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// `--cuda-graph auto|on|off`: from which step on the steps are replayed as captured graphs.
class CudaGraphPolicy {
 public:
  /// `possible`: the device has graphs and the exchange runs on its streams. UsageError for `on` when not.
  CudaGraphPolicy(std::string_view option, bool possible);

  /// Whether this step's timing completes what `auto` wants to know; `wants_graphs` then has the answer.
  bool observe(const StepTiming& timing);

  /// Of this rank alone: graphs with collectives inside must be replayed by all ranks or by none.
  bool wants_graphs() const;

  bool from_the_start() const { return choice_ == Choice::on; }

 private:
  enum class Choice { on, off, measure };
  static constexpr std::size_t warm_up_steps = 5;
  static constexpr std::size_t observed_steps = 15;

  Choice choice_;
  std::size_t steps_ = 0;
  std::vector<StepTiming> observed_;
};

}  // namespace lockstep::runtime
