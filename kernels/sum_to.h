#pragma once

#include "kernels/base/export.h"
#include "kernels/op.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {

/// How the CPU walks a sum: the run of the innermost axis, whose elements go to one sum, or each to its own.
struct SumRun {
  std::int64_t n;
  bool to_one;
};

/// The sum over what `y` was broadcast over: the gradient of a broadcast. x and y f32; the shape of y
/// broadcasts to that of x. In f32, in an order that the shapes fix.
struct LOCKSTEP_API SumTo {
  static constexpr std::string_view name = "sum_to";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };
  /// y += x, over one run.
  using Simd = void(const SumTo&, const SumRun&, const float* x, float* y);

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_dtype("x", in[x], DType::f32);
    require_dtype("y", out[y], DType::f32);
    if (broadcast(out[y].shape, in[x].shape) != in[x].shape) {
      throw_misfit(out[y].shape.str() + " does not broadcast to " + in[x].shape.str());
    }
  }
  double flops(TypeSpan in, TypeSpan) const { return static_cast<double>(in[x].shape.elements()); }
};

}  // namespace lockstep::kernels
