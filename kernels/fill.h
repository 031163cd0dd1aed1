#pragma once

#include "kernels/op.h"

namespace lockstep::kernels {

/// Every element of y is `value`: the gradient of an output that nobody used. f32, bf16 or f16.
struct Fill {
  static constexpr std::string_view name = "fill";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum Out : std::size_t { y };

  double value = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("value", value);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 0, 0);
    require_count(out, 1, 1);
    require_floats("y", out[y]);
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

}  // namespace lockstep::kernels
