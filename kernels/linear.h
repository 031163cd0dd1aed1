#pragma once

#include "kernels/algorithm.h"
#include "kernels/matmul.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// Rows of x, columns of x and columns of y.
struct MatmulSize {
  std::int64_t rows, inputs, outputs;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
  }
};

/// w (O, I) acts on the last dimension of x; w (O, C, H, W) on whole images x (N, C, H, W), which so need no
/// flattened copy.
inline MatmulSize matmul_size(const Shape& x, const Shape& w) {
  const std::int64_t inputs = w.elements(1);
  return {inputs > 0 ? x.elements() / inputs : 0, inputs, w[0]};
}

/// y = x w^T + b, as PyTorch's. x: (..., I), w: (O, I), y: (..., O); or x: (N, C, H, W), w: (O, C, H, W),
/// y: (N, O). b: (O), may be left out.
struct Linear {
  static constexpr std::string_view name = "linear";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, w, b };
  enum Out : std::size_t { y };
  /// The CPU's SIMD kernel for products too small for a library call; all row-major.
  using Simd = void(const Linear&, const MatmulSize&, const float* x, const float* w, const float* b,
                    float* y);

  Activation activation = Activation::none;
  MatmulPrecision precision = MatmulPrecision::highest;
  Algorithm algorithm = Algorithm::automatic;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("activation", activation);
    visit("precision", precision);
    visit("algorithm", algorithm);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 3);
    require_floats("x", in[x]);
    require_same_dtype("x", in[x], "the weights", in[w]);
    const Shape& data = in[x].shape;
    const Shape& weights = in[w].shape;
    if (in.size() > b && weights.rank() > 0) require_type("bias", in[b], {in[x].dtype, {weights[0]}});
    Shape out = data;
    if (weights.rank() == 4 && data.rank() == 4) {
      for (std::size_t axis = 1; axis < 4; ++axis) {
        if (data[axis] != weights[axis]) throw_misfit_of(data, weights);
      }
      out = {data[0], weights[0]};
    } else if (weights.rank() == 2 && data.rank() > 0 && data[data.rank() - 1] == weights[1]) {
      out[data.rank() - 1] = weights[0];
    } else {
      throw_misfit_of(data, weights);
    }
    if (weights.elements(1) == 0) throw_misfit("weights " + weights.str() + " have no features");
    return {{in[x].dtype, out}};
  }

  double flops(TypeSpan in, TypeSpan) const { return matmul_size(in[x].shape, in[w].shape).flops(); }

 private:
  [[noreturn]] static void throw_misfit_of(const Shape& x, const Shape& w) {
    throw_misfit("input " + x.str() + " does not fit weights " + w.str() + ": " +
                 std::to_string(w.elements(1)) + " features are wanted");
  }
};

/// dx = dy w. dy: (..., O), w: (O, I), dx: (..., I); or dy: (N, O), w: (O, C, H, W), dx: (N, C, H, W).
struct LinearBackwardData {
  static constexpr std::string_view name = "linear_backward_data";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy, w };
  enum Out : std::size_t { dx };
  using Simd = void(const LinearBackwardData&, const MatmulSize&, const float* dy, const float* w, float* dx);

  MatmulPrecision precision = MatmulPrecision::highest;
  Algorithm algorithm = Algorithm::automatic;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("precision", precision);
    visit("algorithm", algorithm);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    require_forward(Linear{}, Types{out[dx], in[w]}, Types{in[dy]});
  }

  double flops(TypeSpan in, TypeSpan out) const { return matmul_size(out[dx].shape, in[w].shape).flops(); }
};

/// dw = dy^T x, db the sum of dy's rows, with the shapes of w and b. db may be left out. dw and db may be f32
/// whatever x and dy are.
struct LinearBackwardWeights {
  static constexpr std::string_view name = "linear_backward_weights";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, dy };
  enum Out : std::size_t { dw, db };
  using Simd = void(const LinearBackwardWeights&, const MatmulSize&, const float* x, const float* dy,
                    float* dw, float* db);

  MatmulPrecision precision = MatmulPrecision::highest;
  Algorithm algorithm = Algorithm::automatic;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("precision", precision);
    visit("algorithm", algorithm);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    Types forward{in[x], weights_of(out[dw], in[x].dtype)};
    if (out.size() > db) forward.push_back(weights_of(out[db], in[x].dtype));
    require_forward(Linear{}, forward, Types{in[dy]});
  }

  double flops(TypeSpan in, TypeSpan out) const { return matmul_size(in[x].shape, out[dw].shape).flops(); }
};

}  // namespace lockstep::kernels
