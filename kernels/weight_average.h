#pragma once

#include "kernels/op.h"
#include "kernels/optimizer.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

/// An exponential moving average of weights, behind each applied update of a flat slice:
/// torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay), lerp(average, parameter, 1 - decay),
/// and a copy behind the first update. A skipped update changes nothing.
struct WeightAverage {
  static constexpr std::string_view name = "weight_average";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { parameter, state };
  enum Out : std::size_t { average };
  using Simd = void(const WeightAverage&, const StepState&, const float* parameter, float* average,
                    std::int64_t n);

  double decay = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("decay", decay);
  }

  void check(TypeSpan in, TypeSpan out) const { require_slices(in, out, 0); }
};

}  // namespace lockstep::kernels
