#pragma once

#include "kernels/op.h"
#include "kernels/optimizer.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// torch.nn.utils.clip_grad_norm_ with the 2-norm, but for the product with the factor, which the update
/// takes: gradients (flat, f32 or bf16, zero padding), each clipped to [-clip_value, clip_value] first. Sets
/// StepState::gradient_scale = min(1, max_norm / (norm + 1e-6)) and ControlBlock::gradient_norm. A norm that
/// is not finite skips the update and counts in ControlBlock::not_finite.
///
/// With `growth_interval` the gradients carry StepState::scaler_scale, and this is torch.amp.GradScaler, too:
/// gradient_scale also unscales, the norm is that of the unscaled gradients, and one that is not finite is
/// no error: the scale is halved, as it is doubled after `growth_interval` steps without one.
///
/// Squares of f32 are exact in double and sums of them cannot overflow there, so the norm is finite if all
/// gradients are. Sums of `gradient_norm_chunk` elements are kept in the workspace and are added in their
/// order: the same bits in every run, whatever the team.
struct GradientNorm {
  static constexpr std::string_view name = "gradient_norm";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { gradients };
  enum Out : std::size_t { state, control };
  /// The sum of the squares of x, clipped to `limit`.
  using Simd = double(const GradientNorm&, float limit, const float* x, std::int64_t n);

  double max_norm = 0;  ///< 0: not clipped
  double clip_value = not_clipped;
  std::int64_t growth_interval = 0;  ///< GradScaler's; 0: gradients are not scaled

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("max_norm", max_norm);
    visit("clip_value", clip_value);
    visit("growth_interval", growth_interval);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_floats("the gradients", in[gradients]);
    if (out.size() != 2) throw_misfit("step state and control block are wanted as outputs");
    require_type("the step's state", out[state], step_state_type());
    require_type("the control block", out[control], control_type());
  }
};

inline constexpr std::int64_t gradient_norm_chunk = 8192;

/// torch.amp.GradScaler's defaults; its factors, 2 and 1/2, are in gradient_scaling.h.
inline constexpr double first_gradient_scale = 65536;
inline constexpr std::int64_t scale_growth_interval = 2000;

}  // namespace lockstep::kernels
