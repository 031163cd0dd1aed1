#pragma once

#include <cstdint>
#include <vector>

#include "kernels/op.h"

namespace lockstep::kernels {

/// The dimension that `dim` names; negative ones count from the last, as in PyTorch.
inline std::size_t axis_of(std::int64_t dim, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  if (dim < -rank || dim >= rank) {
    throw_misfit("dimension " + std::to_string(dim) + " is none of " + shape.str());
  }
  return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

/// x of any dtype, cut along one dimension. Its outputs go by number: the parts, in the order of `sizes`.
struct Split {
  static constexpr std::string_view name = "split";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x };

  std::vector<std::int64_t> sizes;  ///< extents of the parts; together that of x
  std::int64_t dim = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("sizes", Shape(sizes));
    visit("dim", dim);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    const std::size_t axis = axis_of(dim, in[x].shape);
    Types parts(sizes.size(), in[x]);
    std::int64_t rest = in[x].shape[axis];
    for (std::size_t part = 0; part < sizes.size() && rest >= 0; ++part) {
      parts[part].shape[axis] = sizes[part];
      rest = sizes[part] < 0 ? -1 : rest - sizes[part];
    }
    if (rest != 0) {
      throw_misfit("sizes " + Shape(sizes).str() + " do not add up to dimension " + std::to_string(dim) +
                   " of " + in[x].shape.str());
    }
    return parts;
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// Tensors of one dtype, one behind another along a dimension. Its inputs go by number. It is the gradient of
/// Split, as Split is its own.
struct Concat {
  static constexpr std::string_view name = "concat";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum Out : std::size_t { y };

  std::int64_t dim = 0;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("dim", dim);
  }

  Types infer(TypeSpan in) const {
    if (in.empty()) throw_misfit("at least one input wanted");
    const std::size_t axis = axis_of(dim, in[0].shape);
    TensorType all = in[0];
    all.shape[axis] = 0;
    for (std::size_t part = 0; part < in.size(); ++part) {
      const std::string operand = "input " + std::to_string(part);
      require_rank(operand, in[part], all.shape.rank());
      TensorType wanted = in[0];
      wanted.shape[axis] = in[part].shape[axis];
      require_type(operand, in[part], wanted);
      all.shape[axis] += in[part].shape[axis];
    }
    return {all};
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// The place of the parts in the whole, all row-major: each of `rows` has a run of every part, one behind
/// another.
struct PartRows {
  std::int64_t rows = 1;
  std::int64_t row_bytes = 0;
  std::vector<std::int64_t> run_bytes;  ///< by part

  PartRows(std::int64_t dim, const TensorDesc& whole, const std::vector<TensorDesc>& parts) {
    const std::size_t axis = axis_of(dim, whole.shape);
    for (std::size_t i = 0; i < axis; ++i) rows *= whole.shape[i];
    const auto bytes_of_row = [axis](const TensorDesc& tensor) {
      return tensor.shape.elements(axis) * static_cast<std::int64_t>(size_of(tensor.dtype));
    };
    row_bytes = bytes_of_row(whole);
    for (const TensorDesc& part : parts) run_bytes.push_back(bytes_of_row(part));
  }
};

}  // namespace lockstep::kernels
