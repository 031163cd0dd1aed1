#pragma once

#include "kernels/op.h"

namespace lockstep::kernels {

/// The same numbers in another floating-point type, rounded to the nearest (ties to even), and in any other
/// layout: f32, bf16 and f16, the last on GPUs alone. Padding of y is written as zero.
struct Cast {
  static constexpr std::string_view name = "cast";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };

  DType to = DType::f32;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("to", name_of(to));
  }

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_floats("x", in[x]);
    const TensorType cast{to, in[x].shape};
    require_floats("y", cast);
    return {cast};
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// y has the layout that x has, if either is open.
inline void choose_cast_layouts(KernelIo& io) {
  TensorDesc& x = io.inputs[Cast::x];
  TensorDesc& y = io.outputs[Cast::y];
  if (!x.layout) x.layout = y.layout_or_row_major();
  if (!y.layout) y.layout = x.layout;
}

}  // namespace lockstep::kernels
