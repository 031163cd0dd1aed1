#pragma once

#include "kernels/op.h"

namespace lockstep::kernels {

/// The same shape and values in another layout, or in memory of their own. Padding of y is written as zero.
struct Reorder {
  static constexpr std::string_view name = "reorder";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    return {in[x]};
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

}  // namespace lockstep::kernels
