#pragma once

#include "kernels/linear.h"

namespace lockstep::kernels {

/// The outputs that one thread of the CPU's team takes, of all rows.
struct LinearRowsPart {
  std::int64_t begin, end;
  MatmulSize size;
};

/// Linear for a few rows, as where text grows token by token: there a product is one pass over the weights,
/// and that is as fast as memory. On the CPU a row's bits depend on that row alone: neither on how many rows
/// there are, nor on its place among them, nor on the team. x (..., I), w (O, I), b (O), of f32; all
/// row-major.
struct LinearRows {
  static constexpr std::string_view name = "linear_rows";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x, w, b };
  enum Out : std::size_t { y };
  using Simd = void(const LinearRows&, const LinearRowsPart&, const float* x, const float* w, const float* b,
                    float* y);

  Activation activation = Activation::none;
  MatmulPrecision precision = MatmulPrecision::highest;  ///< on a GPU

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("activation", activation);
    visit("precision", precision);
  }

  Types infer(TypeSpan in) const {
    const Types out = Linear{}.infer(in);
    require_dtype("x", in[x], DType::f32);
    require_rank("the weights", in[w], 2);
    return out;
  }

  double flops(TypeSpan in, TypeSpan) const { return matmul_size(in[x].shape, in[w].shape).flops(); }
};

}  // namespace lockstep::kernels
