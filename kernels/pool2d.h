#pragma once

#include <array>
#include <optional>

#include "kernels/op.h"

namespace lockstep::kernels {

struct PoolPlane;

/// Pairs are of rows and columns: {h, w}.
struct Pool2dGeometry {
  std::array<std::int64_t, 2> kernel{0, 0};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("kernel", kernel);
    visit("stride", stride);
    visit("padding", padding);
  }
  bool operator==(const Pool2dGeometry&) const = default;

  /// x (N, C, H, W) to y (N, C, H', W'). Windows are cut off at the bottom and right (floor mode).
  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_floats("x", in[0]);
    require_rank("x", in[0], 4);
    TensorType out = in[0];
    for (std::size_t axis = 0; axis < 2; ++axis) {
      if (stride[axis] < 1 || kernel[axis] < 1 || padding[axis] < 0 || 2 * padding[axis] > kernel[axis]) {
        throw_misfit("padding " + std::to_string(padding[axis]) + " must be at most half of the window " +
                     std::to_string(kernel[axis]) + ", its stride at least 1");
      }
      const std::int64_t room = in[0].shape[axis + 2] + 2 * padding[axis] - kernel[axis];
      if (room < 0) throw_misfit("input " + in[0].shape.str() + " is smaller than the window");
      out.shape[axis + 2] = room / stride[axis] + 1;
    }
    return {out};
  }
};

/// The greatest element of each window, of which padding is no part. x: (N, C, H, W); y: (N, C, H', W').
struct MaxPool2d {
  static constexpr std::string_view name = "max_pool2d";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };
  using Simd = void(const MaxPool2d&, const PoolPlane&, const void* x, void* y);

  Pool2dGeometry geometry;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
  }
  Types infer(TypeSpan in) const { return geometry.infer(in); }
};

/// The first greatest element of a window gets its gradient (PyTorch's rule); found again from x, for windows
/// whose places no byte holds (kernels/pool_indices.h). With `relu_mask`, x is the output of a relu and the
/// result is the gradient before it: dx where x > 0, else 0.
struct MaxPool2dBackward {
  static constexpr std::string_view name = "max_pool2d_backward";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x, dy };
  enum Out : std::size_t { dx };
  using Simd = void(const MaxPool2dBackward&, const PoolPlane&, const void* x, const void* dy, void* dx);

  Pool2dGeometry geometry;
  bool relu_mask = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
    visit("relu_mask", relu_mask);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    require_type("x", in[x], out[dx]);
    require_forward(MaxPool2d{geometry}, Types{out[dx]}, Types{in[dy]});
  }
};

/// Average over each window, padding counted as PyTorch's default does.
struct AvgPool2d {
  static constexpr std::string_view name = "avg_pool2d";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };
  using Simd = void(const AvgPool2d&, const PoolPlane&, const void* x, void* y);

  Pool2dGeometry geometry;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
  }
  Types infer(TypeSpan in) const { return geometry.infer(in); }
};

/// Each pixel of dx sums what its windows give it. dy: (N, C, H', W'); dx: (N, C, H, W).
struct AvgPool2dBackward {
  static constexpr std::string_view name = "avg_pool2d_backward";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy };
  enum Out : std::size_t { dx };
  using Simd = void(const AvgPool2dBackward&, const PoolPlane&, const void* dy, void* dx);

  Pool2dGeometry geometry;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
  }
  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_forward(AvgPool2d{geometry}, Types{out[dx]}, Types{in[dy]});
  }
};

/// PyTorch's AdaptiveAvgPool2d: output row i is the average of the input's rows from floor(i H / H') to
/// before ceil((i + 1) H / H'), columns likewise. Sums are f32; x in f32 or bf16 (f16 on GPUs).
struct AdaptiveAvgPool2d {
  static constexpr std::string_view name = "adaptive_avg_pool2d";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y };
  using Simd = void(const AdaptiveAvgPool2d&, const PoolPlane&, const void* x, void* y);

  std::array<std::int64_t, 2> output{1, 1};  ///< H', W'

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("output", output);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_floats("x", in[x]);
    require_rank("x", in[x], 4);
    const Shape& images = in[x].shape;
    if (output[0] < 1 || output[1] < 1 || images[2] < 1 || images[3] < 1) {
      throw_misfit("pictures of " + images.str() + " cannot be averaged to " + std::to_string(output[0]) +
                   "x" + std::to_string(output[1]));
    }
    return {{in[x].dtype, {images[0], images[1], output[0], output[1]}}};
  }

  double flops(TypeSpan in, TypeSpan) const { return static_cast<double>(in[x].shape.elements()); }
};

/// Each pixel of dx gathers from the windows that it lies in.
struct AdaptiveAvgPool2dBackward {
  static constexpr std::string_view name = "adaptive_avg_pool2d_backward";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy };
  enum Out : std::size_t { dx };
  using Simd = void(const AdaptiveAvgPool2dBackward&, const PoolPlane&, const void* dy, void* dx);

  std::array<std::int64_t, 2> output{1, 1};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("output", output);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_forward(AdaptiveAvgPool2d{output}, Types{out[dx]}, Types{in[dy]});
  }
};

/// One plane of lanes: `lanes` adjacent channels (16 in nChw16c, 1 in nchw, C in channels-last).
struct PoolPlane {
  std::int64_t height, width, out_height, out_width;
  std::int64_t x_row, y_row, pixel;  ///< elements from row to row of x and y, and from pixel to pixel
  std::int64_t lanes;
  std::int64_t kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
  DType dtype = DType::f32;  ///< or bf16, of x and y; computed with as f32
};

/// A layout seen as images of groups of planes: `lanes` channels side by side, pixel by pixel.
struct Planes {
  std::int64_t lanes, groups;             ///< groups * lanes: the channels, padded
  std::int64_t image, group, row, pixel;  ///< strides, in elements
};

/// The tensors of a pool as their kernels walk them: groups, lanes and pixels of x and y correspond.
struct PoolPlanes {
  Planes x, y;
};

/// Nothing for a layout that is neither row-major, channels-last, nor blocked in channels alone.
std::optional<Planes> pool_planes(const Layout& layout);

/// For x, y or their gradients. UsageError unless both are row-major, channels-last, or blocked in
/// channels alike.
PoolPlanes pool_planes(const TensorDesc& x, const TensorDesc& y);

/// x's layout if a pool can use it (or y's, if x is free), else row-major; y follows.
void choose_pool_layouts(TensorDesc& x, TensorDesc& y);

}  // namespace lockstep::kernels
