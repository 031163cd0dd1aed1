#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "runtime/step/executor.h"

namespace lockstep::runtime {

/// What `--cuda-graph` asks for where a step cannot be captured: `on` fails, `auto` goes on without.
Executor::WithoutGraph without_graph(std::string_view option);

/// `--cuda-graph auto|on|off`: whether, and from which step, steps are replayed as captured graphs.
class CudaGraphPolicy {
 public:
  /// `obstacle`: why there can be no graphs, empty if there can. UsageError for `on` then.
  CudaGraphPolicy(std::string_view option, std::string_view obstacle);

  /// True when this step's timing completes the measurement of `auto`; `wants_graphs` then has the answer.
  bool observe(const StepTiming& timing);

  /// This rank's vote: graphs with collectives inside must be replayed by all ranks or by none.
  bool wants_graphs() const;

  /// What all ranks have agreed on, or had when the run that goes on was saved: from then on it stays so,
  /// since the order of a library's sums may depend on it. Of no effect on `on` and `off`, which need no
  /// agreement.
  void decide(bool replays);
  /// What `auto` came to; nothing before that, or with `on`, `off` or an obstacle.
  std::optional<bool> decision() const { return decision_; }

  bool from_the_start() const { return mode_ == Mode::on; }

 private:
  enum class Mode { on, off, measure };
  static constexpr std::size_t warm_up_steps = 5;
  static constexpr std::size_t observed_steps = 15;

  Mode mode_;
  std::size_t steps_ = 0;
  std::vector<StepTiming> observed_;
  std::optional<bool> decision_;
};

}  // namespace lockstep::runtime
