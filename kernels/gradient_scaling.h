#pragma once

#include <cmath>

#include "kernels/gradient_norm.h"
#include "kernels/pointwise_functions.h"

namespace lockstep::kernels {

/// What GradientNorm does with the sum of squares, once for CPU and GPU.
struct GradientScaling {
  /// clip_value as gradients that carry the scale see it.
  template <class Op>
  LOCKSTEP_INLINE static float limit(const Op& op, const StepState& state) {
    return static_cast<float>(op.clip_value * static_cast<double>(state.carried_scale));
  }

  /// GradScaler::update: backoff by 1/2 after a step that was skipped, growth by 2 after `interval` others.
  LOCKSTEP_INLINE static void update_scale(std::int64_t interval, bool finite, StepState& state) {
    if (!finite) {
      state.scaler_scale *= 0.5F;
      state.growth_tracker = 0;
    } else if (++state.growth_tracker == interval) {
      const float grown = 2 * state.scaler_scale;
      if (grown - grown == 0) state.scaler_scale = grown;
      state.growth_tracker = 0;
    }
  }

  LOCKSTEP_INLINE static void finish(const GradientNorm& op, double squares, StepState& state,
                                     ControlBlock& control) {
    const auto unscale = static_cast<float>(1.0 / static_cast<double>(state.scaler_scale));
    const double norm = sqrt(squares) * static_cast<double>(unscale);
    const bool finite = norm - norm == 0;
    const double clip = op.max_norm > 0 ? op.max_norm / (norm + 1e-6) : 1;
    control.gradient_norm = static_cast<float>(norm);
    control.scaler_scale = state.scaler_scale;
    if (finite) {
      state.gradient_scale = unscale * static_cast<float>(clip < 1 ? clip : 1);
    } else {
      state.skip_update = 1;
    }
    if (op.growth_interval > 0) {
      update_scale(op.growth_interval, finite, state);
    } else if (!finite) {
      control.not_finite = control.not_finite > 1 ? control.not_finite : 1;
    }
  }
};

}  // namespace lockstep::kernels
