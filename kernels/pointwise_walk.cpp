#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

bool broadcasts(const KernelIo& io) {
  return std::ranges::any_of(io.inputs,
                             [&](const TensorDesc& in) { return in.shape != io.outputs.front().shape; });
}

bool is_padded(const Layout& layout, const Shape& shape) {
  return layout.padded != shape;
}

bool is_dense(const Layout& layout) {
  return layout.span() == layout.padded.elements();
}

/// Of an operand that is broadcast to `full`: what it repeats along dimension `dim` of it.
class Repeated {
 public:
  Repeated(const Shape& shape, const Shape& full) : shape_(shape), full_(full) {}

  bool operator()(std::size_t dim) const { return dim < missing() || shape_[dim - missing()] != full_[dim]; }
  std::size_t missing() const { return full_.rank() - shape_.rank(); }

 private:
  const Shape& shape_;
  const Shape& full_;
};

/// The dimensions of a layout, the greatest strides first.
std::vector<std::size_t> by_falling_strides(const Layout& layout) {
  std::vector<std::size_t> order(layout.strides.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t dim) { return layout.strides[dim]; });
  return order;
}

/// The product of the sizes of the blocks from number `first` on, of those on `dim` if it is given.
std::int64_t blocks_from(const Layout& layout, std::size_t first, std::optional<int> dim = {}) {
  std::int64_t size = 1;
  for (std::size_t i = first; i < layout.blocks.size(); ++i) {
    if (!dim || layout.blocks[i].dim == *dim) size *= layout.blocks[i].size;
  }
  return size;
}

/// One loop over a layout: along a dimension of the outer array, or of an inner block.
struct Axis {
  std::size_t dim;
  std::optional<std::size_t> block;
  std::int64_t extent, stride;
};

std::vector<Axis> axes_of(const Layout& layout) {
  std::vector<Axis> axes;
  for (const std::size_t dim : by_falling_strides(layout)) {
    const std::int64_t in_blocks = blocks_from(layout, 0, static_cast<int>(dim));
    axes.push_back({dim, {}, layout.padded[dim] / in_blocks, layout.strides[dim]});
  }
  for (std::size_t i = 0; i < layout.blocks.size(); ++i) {
    const auto dim = static_cast<std::size_t>(layout.blocks[i].dim);
    axes.push_back({dim, i, layout.blocks[i].size, blocks_from(layout, i + 1)});
  }
  std::erase_if(axes, [](const Axis& axis) { return axis.extent == 1; });
  return axes;
}

/// Of an operand in the layout that `broadcast_layout` says.
std::int64_t stride_along(const Axis& axis, const TensorDesc& in, const TensorDesc& full) {
  const Repeated repeated(in.shape, full.shape);
  if (repeated(axis.dim)) return 0;
  if (!axis.block) return in.layout_or_row_major().strides[axis.dim - repeated.missing()];
  std::int64_t stride = 1;
  const std::vector<Layout::Block> blocks = full.layout_or_row_major().blocks;
  for (std::size_t i = *axis.block + 1; i < blocks.size(); ++i) {
    if (!repeated(static_cast<std::size_t>(blocks[i].dim))) stride *= blocks[i].size;
  }
  return stride;
}

/// The walk with its axes in the order of falling strides of the output, those of extent 1 left out.
PointwiseWalk ordered_walk(const KernelIo& io) {
  const TensorDesc& out = io.outputs.front();
  const std::vector<Axis> axes = axes_of(out.layout_or_row_major());
  if (axes.size() > PointwiseWalk::most_axes) throw UsageError("pointwise: too many dimensions");
  PointwiseWalk walk;
  walk.axes = axes.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    walk.extents[i] = axes[i].extent;
    walk.out_strides[i] = axes[i].stride;
    for (std::size_t in = 0; in < io.inputs.size(); ++in) {
      walk.in_strides[in][i] = stride_along(axes[i], io.inputs[in], out);
    }
  }
  return walk;
}

/// Whether axis `at` is the run of the one inside it, repeated without a gap.
bool joins_next(const PointwiseWalk& walk, std::size_t at, std::size_t inputs) {
  const auto continues = [&](const auto& strides) {
    return strides[at] == strides[at + 1] * walk.extents[at + 1];
  };
  return continues(walk.out_strides) &&
         std::all_of(walk.in_strides.begin(), walk.in_strides.begin() + static_cast<std::ptrdiff_t>(inputs),
                     continues);
}

void join_axes(PointwiseWalk& walk, std::size_t inputs) {
  for (std::size_t at = walk.axes; at-- > 1;) {
    const std::size_t outer = at - 1;
    if (!joins_next(walk, outer, inputs)) continue;
    walk.extents[outer] *= walk.extents[at];
    const auto take_inner = [&](auto& strides) {
      strides[outer] = strides[at];
      std::copy(strides.begin() + static_cast<std::ptrdiff_t>(at) + 1, strides.end(),
                strides.begin() + static_cast<std::ptrdiff_t>(at));
    };
    take_inner(walk.out_strides);
    for (std::size_t in = 0; in < inputs; ++in) take_inner(walk.in_strides[in]);
    std::copy(walk.extents.begin() + static_cast<std::ptrdiff_t>(at) + 1, walk.extents.end(),
              walk.extents.begin() + static_cast<std::ptrdiff_t>(at));
    --walk.axes;
  }
}

PointwiseWalk flat_walk(std::int64_t elements) {
  PointwiseWalk walk;
  walk.axes = 1;
  walk.extents[0] = elements;
  walk.out_strides[0] = 1;
  for (auto& strides : walk.in_strides) strides[0] = 1;
  return walk;
}

/// The layout of an operand of `shape`, beside tensors of shape `full` in `layout`: theirs without what is
/// broadcast over.
Layout broadcast_layout(const Layout& layout, const Shape& full, const Shape& shape) {
  const Repeated repeated(shape, full);
  Layout like{.padded = shape, .strides = shape, .blocks = {}};
  for (const Layout::Block& block : layout.blocks) {
    if (repeated(static_cast<std::size_t>(block.dim))) continue;
    like.blocks.push_back({block.dim - static_cast<int>(repeated.missing()), block.size});
  }
  std::int64_t stride = blocks_from(like, 0);
  const std::vector<std::size_t> order = by_falling_strides(layout);
  for (std::size_t i = order.size(); i-- > 0;) {
    if (order[i] < repeated.missing()) continue;
    const std::size_t dim = order[i] - repeated.missing();
    if (!repeated(order[i])) like.padded[dim] = layout.padded[order[i]];
    like.strides[dim] = stride;
    stride *= like.padded[dim] / blocks_from(like, 0, static_cast<int>(dim));
  }
  return like;
}

/// An axis of extent 1 may have any stride.
bool fits_layout(const Layout& layout, const TensorDesc& desc) {
  return desc.layout_or_row_major() == layout || (layout.blocks.empty() && has_layout(layout, desc));
}

void give_layout(const Layout& layout, const Shape& full, TensorDesc& desc) {
  const Layout wanted = desc.shape == full ? layout : broadcast_layout(layout, full, desc.shape);
  const bool keeps = desc.layout && desc.shape != full && fits_layout(wanted, desc);
  if (!keeps) desc.layout = wanted;
}

/// Whether the padding of `layout` is zero in every operand, and the op keeps it so.
bool padding_stays_zero(const Pointwise& op, const Layout& layout, const KernelIo& io) {
  const Shape& full = io.outputs.front().shape;
  const auto is_zero_in = [&](const TensorDesc& in) {
    const Repeated repeated(in.shape, full);
    for (std::size_t dim = 0; dim < full.rank(); ++dim) {
      if (layout.padded[dim] != full[dim] && repeated(dim)) return false;
    }
    return true;
  };
  return op.keeps_zero() && std::ranges::all_of(io.inputs, is_zero_in);
}

}  // namespace

std::int64_t PointwiseWalk::elements() const {
  return std::accumulate(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(axes),
                         std::int64_t{1}, std::multiplies{});
}

bool PointwiseWalk::is_flat() const {
  return axes == 1 && out_strides[0] == 1 &&
         std::ranges::all_of(in_strides, [](const auto& strides) { return strides[0] == 1; });
}

PointwiseWalk pointwise_walk(const KernelIo& io) {
  const Shape& full = io.outputs.front().shape;
  const Layout layout = io.outputs.front().layout_or_row_major();
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      const Layout have = desc.layout_or_row_major();
      const bool fits =
          desc.shape == full ? have == layout : fits_layout(broadcast_layout(layout, full, desc.shape), desc);
      if (fits) continue;
      throw UsageError("pointwise: layouts " + layout.str() + " and " + have.str() + " differ");
    }
  }
  if (!broadcasts(io)) return flat_walk(layout.span());
  if (!is_dense(layout)) {
    throw UsageError("pointwise: " + layout.str() + " cannot be broadcast to; make it row-major");
  }
  PointwiseWalk walk = ordered_walk(io);
  if (walk.axes == 0) return flat_walk(1);
  join_axes(walk, io.inputs.size());
  return walk;
}

void choose_pointwise_layouts(const Pointwise& op, KernelIo& io) {
  const Shape& full = io.outputs.front().shape;
  const auto first = std::ranges::find_if(io.inputs, [&](const TensorDesc& in) { return in.shape == full; });
  Layout layout = first == io.inputs.end() ? Layout::row_major(full) : first->layout_or_row_major();
  const bool repeats = layout.span() < full.elements();  // as an expanded view does
  const bool walkable = is_dense(layout) || (!broadcasts(io) && !repeats);
  const bool filled = is_dense(layout) && !is_padded(layout, full);
  if (!walkable || (!filled && !padding_stays_zero(op, layout, io))) layout = Layout::row_major(full);
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) give_layout(layout, full, desc);
  }
}

void choose_sum_layouts(TensorDesc& x, TensorDesc& y) {
  if (!x.layout || !is_dense(*x.layout)) x.layout = Layout::row_major(x.shape);
  give_layout(*x.layout, x.shape, y);
}

}  // namespace lockstep::kernels
