#pragma once

#include "kernels/dropout.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// The rows that one thread of the CPU's team takes.
struct NormRows {
  std::int64_t begin, end, columns;
  DType of_y = DType::f32;         ///< of y, or of its gradient
  DType of_residual = DType::f32;  ///< of the residual, or of its gradient

  NormRows part(std::int64_t first, std::int64_t last) const {
    return {first, last, columns, of_y, of_residual};
  }
};

/// y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension, the variance that of the
/// row itself (PyTorch's nn.LayerNorm). The bias may be left out. mean and 1 / sqrt(variance + eps), a number
/// a row each, are kept for backward: cheaper than the two passes over x that give them.
/// With a residual (which takes a bias too) it is total = x + residual that is normalised, and is a further
/// output. y and the residual may have half types; all else is f32, and y is rounded once. With the step's
/// state `dropout` drops from a residual of a half type first, as the op of that name does, rounding
/// included.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x, weight, bias, residual, state };
  enum Out : std::size_t { y, mean, rstd, total };
  /// `bias` may be null, and so may `residual`, with `total`.
  using Simd = void(const LayerNorm&, const NormRows&, const float* x, const float* weight, const float* bias,
                    const void* residual, void* y, float* mean, float* rstd, float* total);

  double eps = 1e-5;
  DType to = DType::f32;  ///< the type of y
  Dropout dropout;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("eps", eps);
    visit("to", name_of(to));
    dropout.fields(visit);
  }

  /// Whether `dropout` can be done here: the blocks of random words must not reach over the ends of rows.
  static bool can_drop(const TensorType& from) {
    const std::size_t rank = from.shape.rank();
    return is_half(from.dtype) && rank > 1 && from.shape[rank - 1] % 4 == 0;
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 5);
    require_dtype("x", in[x], DType::f32);
    const Shape& shape = in[x].shape;
    if (shape.rank() == 0 || shape[shape.rank() - 1] < 1) {
      throw_misfit("input " + shape.str() + " has no rows to normalise");
    }
    const TensorType of_row{DType::f32, Shape(std::vector(shape.begin(), shape.end() - 1))};
    const TensorType of_column{DType::f32, {shape[shape.rank() - 1]}};
    require_type("weight", in[weight], of_column);
    if (in.size() > bias) require_type("bias", in[bias], of_column);
    const TensorType normalised{to, shape};
    require_floats("y", normalised);
    if (in.size() <= residual) return {normalised, of_row, of_row};
    require_floats("the residual", in[residual]);
    if (is_half(to) && is_half(in[residual].dtype))
      require_same_dtype("the residual", in[residual], "y", normalised);
    require_type("the residual", {DType::f32, in[residual].shape}, in[x]);
    if (in.size() > state) {
      require_type("the step's state", in[state], step_state_type());
      if (!can_drop(in[residual]))
        throw_misfit("what is dropped from has a half type and rows of whole fours");
    }
    return {normalised, of_row, of_row, in[x]};
  }

  /// Two passes for the sums, and one of four operations.
  double flops(TypeSpan in, TypeSpan) const { return 8 * static_cast<double>(in[x].shape.elements()); }
};

/// The gradients in one pass over dy and x; dbias may be left out. Where x is a total, `dtotal` is what else
/// its gradient is made of, which dx then includes. A residual of f32 has the gradient dx; one of a half type
/// has `dresidual`, which is dx, rounded; with the step's state, behind a `dtotal`, it drops what forward
/// did. Sums over rows are taken in chunks of rows that the shape fixes, and then over the chunks in their
/// order.
struct LayerNormBackward {
  static constexpr std::string_view name = "layer_norm_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { dy, x, weight, mean, rstd, dtotal, state };
  enum Out : std::size_t { dx, dweight, dbias, dresidual };
  /// Columns of rows whose sums a GPU takes while it makes dx; of longer ones it reads dy and x again. The
  /// sums of a block lie in its shared memory, of 48 KiB.
  static constexpr std::int64_t gpu_longest_summed = 6080;
  /// `sums`: what these rows give dweight, behind it dbias. `dtotal` and `dresidual` may be null.
  using Simd = void(const LayerNormBackward&, const NormRows&, const void* dy, const float* x,
                    const float* weight, const float* mean, const float* rstd, const float* dtotal, float* dx,
                    void* dresidual, float* sums);

  Dropout dropout;

  template <class Visit>
  void fields(Visit&& visit) const {
    dropout.fields(visit);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 5, 7);
    require_type("x", in[x], out[dx]);
    require_type("weight", in[weight], out[dweight]);
    Types forward{out[dx], out[dweight]};
    if (out.size() > dbias) forward.push_back(out[dbias]);
    if (out.size() > dresidual) {
      if (!is_half(out[dresidual].dtype)) throw_misfit("a residual of f32 has the gradient dx");
      forward.push_back(out[dresidual]);
    }
    require_forward(LayerNorm{.to = in[dy].dtype}, forward, Types{in[dy], in[mean], in[rstd]});
    if (in.size() > dtotal) require_type("dtotal", in[dtotal], in[x]);
    if (in.size() > state) {
      if (out.size() <= dresidual) throw_misfit("the gradient of what is dropped from is wanted");
      forward.push_back(in[state]);
      require_forward(LayerNorm{.to = in[dy].dtype}, forward, Types{in[dy], in[mean], in[rstd]});
    }
  }

  double flops(TypeSpan in, TypeSpan) const { return 18 * static_cast<double>(in[x].shape.elements()); }
};

}  // namespace lockstep::kernels
