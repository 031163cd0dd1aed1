#pragma once

#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// torch.nn.utils.clip_grad_norm_ with the 2-norm, but for the product with the factor, which the update
/// takes: gradients (flat, f32, zero padding). Sets
/// StepState::gradient_scale = min(1, max_norm / (norm + 1e-6)) and ControlBlock::gradient_norm. A norm that
/// is not finite skips the update and counts in ControlBlock::not_finite.
///
/// Squares of f32 are exact in double and sums of them cannot overflow there, so the norm is finite if all
/// gradients are. Sums of `gradient_norm_chunk` elements are kept in the workspace and are added in their
/// order: the same bits in every run, whatever the team.
struct GradientNorm {
  static constexpr std::string_view name = "gradient_norm";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradients };
  enum Out : std::size_t { state, control };
  /// The sum of the squares of x.
  using Simd = double(const GradientNorm&, const float* x, std::int64_t n);

  double max_norm = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("max_norm", max_norm);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_dtype("the gradients", in[gradients], DType::f32);
    if (out.size() != 2) throw_misfit("step state and control block are wanted as outputs");
  }
};

inline constexpr std::int64_t gradient_norm_chunk = 8192;

}  // namespace lockstep::kernels
