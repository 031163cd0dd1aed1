#pragma once

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// The last kernel of a step: its control block to where the host reads it. On a GPU that is pinned memory,
/// which the kernel writes by itself.
struct EndStep {
  static constexpr std::string_view name = "end_step";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { control };
  enum Out : std::size_t { result };

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    if (out.size() != 1) throw_misfit("the host's control block is wanted as output");
    require_type("the control block", in[control], control_type());
    require_type("the host's control block", out[result], control_type());
  }
};

}  // namespace lockstep::kernels
