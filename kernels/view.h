#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/op.h"

namespace lockstep::kernels {

/// Views: other shapes and strides of the same memory. They have no kernel, so ops.def does not list them.

/// A view with a given shape.
struct ShapedView {
  static constexpr bool is_view = true;
  enum In : std::size_t { x };

  ShapedView(Shape of_output = {}) : shape(std::move(of_output)) {}

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("shape", shape);
  }

  Shape shape;
};

/// Row-major numbers in another shape.
struct Reshape : ShapedView {
  static constexpr std::string_view name = "reshape";
  using ShapedView::ShapedView;

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    if (in[x].shape.elements() != shape.elements()) {
      throw_misfit(in[x].shape.str() + " does not have as many elements as " + shape.str());
    }
    return {{in[x].dtype, shape}};
  }

  /// x must be row-major.
  void view(KernelIo& io) const { all_row_major(io); }
};

/// Row-major numbers from element `first` on, in another shape: a part of x, as PyTorch's narrow gives along
/// the first dimension.
struct Narrow : ShapedView {
  static constexpr std::string_view name = "narrow";

  Narrow(Shape of_output = {}, std::int64_t begin = 0) : ShapedView(std::move(of_output)), first(begin) {}

  template <class Visit>
  void fields(Visit&& visit) const {
    ShapedView::fields(visit);
    visit("first", first);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    if (first < 0 || first + shape.elements() > in[x].shape.elements()) {
      throw_misfit(in[x].shape.str() + " does not have " + shape.str() + " from element " +
                   std::to_string(first) + " on");
    }
    return {{in[x].dtype, shape}};
  }

  /// x must be row-major.
  void view(KernelIo& io) const { all_row_major(io); }
  std::size_t offset(DType dtype) const { return static_cast<std::size_t>(first) * size_of(dtype); }

  std::int64_t first;
};

/// Dimension i of the output is dimension axes[i] of the input.
struct Permute {
  static constexpr std::string_view name = "permute";
  static constexpr bool is_view = true;
  enum In : std::size_t { x };

  std::vector<std::int64_t> axes;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("axes", Shape(axes));
  }

  Types infer(TypeSpan in) const;

  /// Strides move with their dimensions; blocks are first taken apart.
  void view(KernelIo& io) const;
};

/// Extents of 1, and dimensions that are not there, are repeated: PyTorch's expand.
struct Expand : ShapedView {
  static constexpr std::string_view name = "expand";
  using ShapedView::ShapedView;

  Types infer(TypeSpan in) const;

  /// What is repeated has stride 0.
  void view(KernelIo& io) const;
};

}  // namespace lockstep::kernels
