#pragma once

#include <cstdint>

#include "kernels/pool2d.h"

namespace lockstep::kernels {

/// A max pool that keeps a byte for each element of y: where in its window the maximum was (row times width
/// of the window plus column, counted from the window's first pixel, in the padding or not). Its backward
/// needs no x. Ties and NaN as in MaxPool2d. With `relu_mask`, x is the output of a relu and the gradient
/// wanted is that before it, so a maximum that is not above 0 has no place. Bytes of padding channels say
/// nothing.
struct MaxPool2dWithIndices {
  static constexpr std::string_view name = "max_pool2d_with_indices";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { x };
  enum Out : std::size_t { y, indices };
  using Simd = void(const MaxPool2dWithIndices&, const PoolPlane&, const void* x, void* y,
                    std::uint8_t* indices);

  static constexpr std::uint8_t no_place = 255;
  /// Whether the places of a window fit a byte.
  static bool fits(const Pool2dGeometry& geometry) {
    return geometry.kernel[0] <= no_place && geometry.kernel[1] <= no_place &&
           geometry.kernel[0] * geometry.kernel[1] <= no_place;
  }

  Pool2dGeometry geometry;
  bool relu_mask = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
    visit("relu_mask", relu_mask);
  }

  Types infer(TypeSpan in) const {
    const TensorType pooled = geometry.infer(in).front();
    if (!fits(geometry)) {
      throw_misfit("a window of " + std::to_string(geometry.kernel[0]) + "x" +
                   std::to_string(geometry.kernel[1]) + " has over 255 places");
    }
    return {pooled, {DType::u8, pooled.shape}};
  }
};

/// Each element of dx is the sum of the gradients of those windows whose maximum it was, in f32, in the order
/// of the windows, rounded once.
struct MaxPool2dWithIndicesBackward {
  static constexpr std::string_view name = "max_pool2d_with_indices_backward";
  static constexpr LayoutRule layouts = LayoutRule::by_kernel;
  enum In : std::size_t { dy, indices };
  enum Out : std::size_t { dx };
  using Simd = void(const MaxPool2dWithIndicesBackward&, const PoolPlane&, const void* dy,
                    const std::uint8_t* indices, void* dx);

  Pool2dGeometry geometry;

  template <class Visit>
  void fields(Visit&& visit) const {
    geometry.fields(visit);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 2);
    require_forward(MaxPool2dWithIndices{geometry}, Types{out[dx]}, Types{in[dy], in[indices]});
  }
};

/// The indices lie as y does; the gradient of y as they do.
void choose_indexed_layouts(KernelIo& io);
void choose_indexed_gradient_layouts(KernelIo& io);

}  // namespace lockstep::kernels
