#pragma once

#include "kernels/linear.h"

namespace lockstep::kernels {

/// A linear map and gelu_tanh of what it gives: y = gelu_tanh(pre), pre = x w^T + b. Backward needs `pre`;
/// evaluation leaves it out. x (..., I), w (O, I), y and pre (..., O). b (O) may be left out. In half types
/// y may come from `pre` before it is rounded, or after.
struct LinearGelu {
  static constexpr std::string_view name = "linear_gelu";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, w, b };
  enum Out : std::size_t { y, pre };

  MatmulPrecision precision = MatmulPrecision::highest;
  Algorithm algorithm = Algorithm::automatic;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("precision", precision);
    visit("algorithm", algorithm);
  }

  Types infer(TypeSpan in) const {
    const Types out = Linear{}.infer(in);
    require_rank("the weights", in[w], 2);
    return {out.front(), out.front()};
  }

  double flops(TypeSpan in, TypeSpan) const { return matmul_size(in[x].shape, in[w].shape).flops(); }
};

/// The gradient of `pre` where a linear map with weights w reads gelu_tanh(pre): dpre = (dy w) times the
/// slope of gelu_tanh at pre. dy (..., O), w (O, I), pre and dpre (..., I).
struct LinearBackwardGelu {
  static constexpr std::string_view name = "linear_backward_gelu";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy, w, pre };
  enum Out : std::size_t { dpre };

  MatmulPrecision precision = MatmulPrecision::highest;
  Algorithm algorithm = Algorithm::automatic;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("precision", precision);
    visit("algorithm", algorithm);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 3, 3);
    require_rank("the weights", in[w], 2);
    require_type("pre", in[pre], out[dpre]);
    require_forward(Linear{}, Types{out[dpre], in[w]}, Types{in[dy]});
  }

  double flops(TypeSpan in, TypeSpan out) const { return matmul_size(out[dpre].shape, in[w].shape).flops(); }
};

/// What library_plan() notes where the function is a pass of its own over what the product gave.
inline constexpr std::string_view gelu_apart_note = "gelu apart";

}  // namespace lockstep::kernels
