#pragma once

#include "kernels/layer_norm.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// y = x / sqrt(mean of x^2 + eps) * weight over the last dimension (PyTorch's nn.RMSNorm). rstd, the number
/// that a row is multiplied by, is kept for backward.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x, weight };
  enum Out : std::size_t { y, rstd };
  using Simd = void(const RmsNorm&, const NormRows&, const float* x, const float* weight, float* y,
                    float* rstd);

  double eps = 0x1p-23;  ///< that of f32

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("eps", eps);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 2);
    Types types = LayerNorm{}.infer(in);
    types.pop_back();
    return types;
  }

  /// A pass for the sum, and one of two operations.
  double flops(TypeSpan in, TypeSpan) const { return 4 * static_cast<double>(in[x].shape.elements()); }
};

/// Sums over rows are taken as LayerNormBackward's.
struct RmsNormBackward {
  static constexpr std::string_view name = "rms_norm_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { dy, x, weight, rstd };
  enum Out : std::size_t { dx, dweight };
  /// `sums`: what these rows give dweight.
  using Simd = void(const RmsNormBackward&, const NormRows&, const float* dy, const float* x,
                    const float* weight, const float* rstd, float* dx, float* sums);

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 4, 4);
    require_type("x", in[x], out[dx]);
    require_type("weight", in[weight], out[dweight]);
    require_forward(RmsNorm{}, Types{out[dx], out[dweight]}, Types{in[dy], in[rstd]});
  }

  double flops(TypeSpan in, TypeSpan) const { return 12 * static_cast<double>(in[x].shape.elements()); }
};

}  // namespace lockstep::kernels
