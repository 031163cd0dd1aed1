#pragma once

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// The first kernel of a training step: StepInput to StepState and ControlBlock, which holds the sums of the
/// step before until then.
struct BeginStep {
  static constexpr std::string_view name = "begin_step";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { input };
  enum Out : std::size_t { state, control };

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    if (out.size() != 2) throw_misfit("step state and control block are wanted as outputs");
  }
};

}  // namespace lockstep::kernels
