#pragma once

#include <array>

#include "kernels/algorithm.h"
#include "kernels/matmul.h"
#include "kernels/op.h"

namespace lockstep::kernels {

struct DepthwisePicture;
struct DepthwiseRow;

/// Pairs are of rows and columns: {h, w}.
struct Conv2dGeometry {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("stride", stride);
    visit("padding", padding);
    visit("dilation", dilation);
    visit("groups", groups);
  }
  /// 0 where the picture is smaller than the filter.
  std::int64_t output_extent(std::int64_t in, std::int64_t kernel, std::size_t axis) const {
    const std::int64_t room = in + 2 * padding[axis] - dilation[axis] * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride[axis] + 1;
  }
};

/// The attributes of a convolution's gradients.
template <class Op, class Visit>
void visit_convolution(const Op& op, Visit& visit) {
  op.geometry.fields(visit);
  visit("algorithm", op.algorithm);
  visit("precision", op.precision);
}

/// Each output element takes a product and a sum for each weight of its filter, in all three directions.
inline double conv2d_flops(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(w.elements(1));
}

/// 2-d cross-correlation as in PyTorch. A GPU whose library has no plan with bias and activation in it, as of
/// groups, rounds y once more before they are applied, as PyTorch does: half a unit of the last place. x: (N,
/// C, H, W); w: (O, C / groups, KH, KW); b: (O), may be left out; y: (N, O, H', W').
struct Conv2d {
  static constexpr std::string_view name = "conv2d";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, w, b };
  enum Out : std::size_t { y };
  /// Of depthwise ones. `b` may be null.
  using Simd = void(const Conv2d&, const DepthwisePicture&, const void* x, const void* w, const void* b,
                    void* y);

  Conv2dGeometry geometry;
  Activation activation = Activation::none;
  Algorithm algorithm = Algorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
    visit("activation", activation);
    visit("algorithm", algorithm);
    visit("precision", precision);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 3);
    require_floats("x", in[x]);
    require_same_dtype("x", in[x], "the weights", in[w]);
    const Shape& images = in[x].shape;
    const Shape& filters = in[w].shape;
    const bool fits = images.rank() == 4 && filters.rank() == 4 && geometry.groups > 0 &&
                      images[1] == filters[1] * geometry.groups && filters[0] % geometry.groups == 0;
    if (!fits) {
      throw_misfit("input " + images.str() + " does not fit weights " + filters.str() + " in " +
                   std::to_string(geometry.groups) + " groups: images (N, C, H, W) are wanted");
    }
    if (in.size() > b) require_type("bias", in[b], {in[x].dtype, {filters[0]}});
    const Shape out{images[0], filters[0], geometry.output_extent(images[2], filters[2], 0),
                    geometry.output_extent(images[3], filters[3], 1)};
    if (out[2] < 1 || out[3] < 1) {
      throw_misfit("input " + images.str() + " is smaller than the kernel of weights " + filters.str());
    }
    return {{in[x].dtype, out}};
  }

  double flops(TypeSpan in, TypeSpan out) const { return conv2d_flops(out[y].shape, in[w].shape); }
};

/// dy: (N, O, H', W'); w: (O, C / groups, KH, KW); dx: (N, C, H, W).
struct Conv2dBackwardData {
  static constexpr std::string_view name = "conv2d_backward_data";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy, w };
  enum Out : std::size_t { dx };

  Conv2dGeometry geometry;
  Algorithm algorithm = Algorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit_convolution(*this, visit);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    require_forward(Conv2d{geometry}, Types{out[dx], in[w]}, Types{in[dy]});
  }

  double flops(TypeSpan in, TypeSpan) const { return conv2d_flops(in[dy].shape, in[w].shape); }
};

/// x: (N, C, H, W); dy: (N, O, H', W'); dw: (O, C / groups, KH, KW); db: (O), may be left out. dw and db may
/// be f32 whatever x and dy are; of half types a GPU's dw is rounded to theirs first, and has their range.
struct Conv2dBackwardWeights {
  static constexpr std::string_view name = "conv2d_backward_weights";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, dy };
  enum Out : std::size_t { dw, db };
  /// Of depthwise ones. `db` may be null.
  using Simd = void(const Conv2dBackwardWeights&, const DepthwiseRow&, const void* x, const void* dy,
                    void* dw, void* db);

  Conv2dGeometry geometry;
  Algorithm algorithm = Algorithm::automatic;
  MatmulPrecision precision = MatmulPrecision::highest;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit_convolution(*this, visit);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    Types forward{in[x], weights_of(out[dw], in[x].dtype)};
    if (out.size() > db) forward.push_back(weights_of(out[db], in[x].dtype));
    require_forward(Conv2d{geometry}, forward, Types{in[dy]});
  }

  double flops(TypeSpan in, TypeSpan out) const { return conv2d_flops(in[dy].shape, out[dw].shape); }
};

}  // namespace lockstep::kernels
