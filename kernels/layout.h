#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/export.h"
#include "kernels/base/shape.h"

namespace lockstep::kernels {

/// The memory layout of a tensor: an outer strided array of inner blocks (the blocked formats of
/// oneDNN, such as nChw16c, in a form that can be printed, hashed and sent). Padding elements are zero.
///
/// Element (i0, i1, ...) is at the sum over d of (i_d / B_d) * strides[d] plus its offset in the inner block,
/// where B_d is the product of the sizes of the blocks on dimension d.
struct LOCKSTEP_API Layout {
  struct Block {
    int dim;
    std::int64_t size;
    bool operator==(const Block&) const = default;
  };
  Shape padded;               ///< extents rounded up, to the blocks or to what a device is fast with
  Shape strides;              ///< of the outer array, in elements
  std::vector<Block> blocks;  ///< inner blocks, outermost first; empty for a strided array

  /// Row-major, no padding: PyTorch's contiguous layout.
  static Layout row_major(const Shape& shape);
  bool is_row_major(const Shape& shape) const { return *this == row_major(shape); }
  /// The same, with rows of zeros behind its own up to `rows`.
  static Layout row_major_up_to(std::int64_t rows, const Shape& shape);
  /// Whether elements are where the row-major layout has them; there may be rows of zeros behind them.
  bool lies_row_major(const Shape& shape) const;

  /// Elements from the first to past the last, padding included.
  std::int64_t span() const;
  std::int64_t offset(const Shape& index) const;

  /// One word for plans and messages, e.g. "row-major" or "aBcd16b".
  std::string str() const;
  bool operator==(const Layout&) const = default;
};

/// What the rule of an op knows of a tensor.
struct LOCKSTEP_API TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;

  std::string str() const;  ///< "f32 2x3"
};
using Types = std::vector<TensorType>;
using TypeSpan = std::span<const TensorType>;

/// What a kernel is told of a tensor. `choose_layouts` (kernels/dispatch.h) sets or replaces the layout; a
/// kernel that is prepared takes the one that is here, or row-major.
struct TensorDesc {
  DType dtype = DType::f32;
  Shape shape;
  std::optional<Layout> layout;

  TensorType type() const { return {dtype, shape}; }
  Layout layout_or_row_major() const { return layout ? *layout : Layout::row_major(shape); }
  bool is_row_major() const { return !layout || layout->is_row_major(shape); }
  std::size_t bytes() const {
    return static_cast<std::size_t>(layout_or_row_major().span()) * size_of(dtype);
  }
};

/// The tensors of one kernel in the order that its header gives.
struct KernelIo {
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
};

LOCKSTEP_API Types types_of(std::span<const TensorDesc> tensors);

/// Of an operand that may be left out: f32 then.
inline DType dtype_of(std::span<const TensorDesc> operands, std::size_t at) {
  return at < operands.size() ? operands[at].dtype : DType::f32;
}

/// (N, C, H, W) with the channels of a pixel side by side, and (O, C, KH, KW) likewise: the layout that
/// tensor cores read.
Layout channels_last(const Shape& shape);

/// Whether every element of the tensor is where `layout` puts it. An axis of extent 1 may have any stride: a
/// picture of one channel is row-major and channels-last at once, and needs no reorder.
bool has_layout(const Layout& layout, const TensorDesc& desc);

/// Layout rules for kernels without a preference of their own. What lies row-major stays.
void all_row_major(KernelIo& io);
/// A tensor without a layout is row-major, the others stay.
void keep_layouts(KernelIo& io);

}  // namespace lockstep::kernels
