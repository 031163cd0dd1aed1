#pragma once

#include "kernels/base/export.h"
#include "kernels/op.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {

/// How the CPU walks a sum: runs of the innermost axis, whose elements go to one sum, or each to its own.
struct SumRun {
  DType dtype;  ///< of x
  std::int64_t n;
  bool to_one;
  std::int64_t runs;            ///< along the axis outside it
  std::int64_t x_step, y_step;  ///< from run to run, in elements
};

/// The sum over what `y` was broadcast over: the gradient of a broadcast. The shape of y broadcasts to that
/// of x; both f32 or bf16 (f16 on GPUs). In f32, in an order that the shapes fix, and rounded once.
struct LOCKSTEP_API SumTo {
  static constexpr std::string_view name = "sum_to";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };
  /// sums += x, over all runs.
  using Simd = void(const SumTo&, const SumRun&, const void* x, float* sums);

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_floats("x", in[x]);
    require_same_dtype("x", in[x], "y", out[y]);
    if (broadcast(out[y].shape, in[x].shape) != in[x].shape) {
      throw_misfit(out[y].shape.str() + " does not broadcast to " + in[x].shape.str());
    }
  }
  double flops(TypeSpan in, TypeSpan) const { return static_cast<double>(in[x].shape.elements()); }
};

}  // namespace lockstep::kernels
