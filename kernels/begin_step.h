#pragma once

#include "kernels/learning_rate.h"
#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// The first kernel of a step: StepInput, which it reads from the host's memory (on a GPU pinned), to
/// StepState and ControlBlock, which until then hold what the step before left in them.
///
/// StepState::step counts the updates that were applied, with this step's: one that was skipped does not
/// count, and in evaluation (`updates` is 0) there is none. Adam's bias corrections and the learning rate are
/// made of it in double, as PyTorch's are. GradScaler's scale and its tracker stay as the step before left
/// them.
///
/// A later micro-batch of the same step leaves the step's state and sums as they are, but for what is its
/// own: its first sample and valid samples, targets of the next step, a request to stop.
struct BeginStep {
  static constexpr std::string_view name = "begin_step";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { input };
  enum Out : std::size_t { state, control };

  double beta1 = 0;  ///< Adam's; 0: no correction
  double beta2 = 0;
  std::int64_t updates = 1;
  bool continues = false;  ///< a later micro-batch
  LearningRateSchedule schedule;
  double initial_scale = 1;  ///< GradScaler's; 1: gradients are not scaled

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("beta1", beta1);
    visit("beta2", beta2);
    visit("updates", updates);
    visit("continues", continues);
    schedule.fields(visit);
    visit("initial_scale", initial_scale);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_type("the step's input", in[input], step_input_type());
    if (out.size() != 2) throw_misfit("step state and control block are wanted as outputs");
    require_type("the step's state", out[state], step_state_type());
    require_type("the control block", out[control], control_type());
  }
};

}  // namespace lockstep::kernels
