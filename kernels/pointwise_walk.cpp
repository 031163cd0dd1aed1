#include "kernels/pointwise_walk.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "kernels/base/error.h"

namespace lockstep::kernels {
namespace {

bool broadcasts(const KernelIo& io) {
  return std::ranges::any_of(io.inputs,
                             [&](const TensorDesc& in) { return in.shape != io.outputs.front().shape; });
}

bool is_padded(const Layout& layout, const Shape& shape) {
  return layout.padded != shape;
}

/// Of an operand along the axes of the full shape.
Shape broadcast_strides(const TensorDesc& in, const Shape& full) {
  Shape strides = full;
  const Layout layout = in.layout_or_row_major();
  const std::size_t missing = full.rank() - in.shape.rank();
  for (std::size_t axis = 0; axis < full.rank(); ++axis) {
    const bool repeated = axis < missing || in.shape[axis - missing] != full[axis];
    strides[axis] = repeated ? 0 : layout.strides[axis - missing];
  }
  return strides;
}

/// The walk with its axes in the order of falling strides of the output, those of extent 1 left out.
PointwiseWalk ordered_walk(const KernelIo& io) {
  const TensorDesc& out = io.outputs.front();
  const Layout layout = out.layout_or_row_major();
  if (!layout.blocks.empty() || is_padded(layout, out.shape)) {
    throw UsageError("pointwise: " + layout.str() + " cannot be broadcast to; make it row-major");
  }
  std::vector<std::size_t> order(out.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t axis) { return layout.strides[axis]; });
  std::erase_if(order, [&](std::size_t axis) { return out.shape[axis] == 1; });
  if (order.size() > PointwiseWalk::most_axes) throw UsageError("pointwise: too many dimensions");
  PointwiseWalk walk;
  walk.axes = order.size();
  for (std::size_t i = 0; i < order.size(); ++i) {
    walk.extents[i] = out.shape[order[i]];
    walk.out_strides[i] = layout.strides[order[i]];
    for (std::size_t in = 0; in < io.inputs.size(); ++in) {
      walk.in_strides[in][i] = broadcast_strides(io.inputs[in], out.shape)[order[i]];
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
  const Layout layout = io.outputs.front().layout_or_row_major();
  const bool broadcast = broadcasts(io);
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      const bool full = desc.shape == io.outputs.front().shape;
      const Layout have = desc.layout_or_row_major();
      if (have == (full ? layout : Layout::row_major(desc.shape))) continue;
      throw UsageError("pointwise: " + layout.str() + " and " + have.str() + " lie differently");
    }
  }
  if (!broadcast) return flat_walk(layout.span());
  PointwiseWalk walk = ordered_walk(io);
  if (walk.axes == 0) return flat_walk(1);
  join_axes(walk, io.inputs.size());
  return walk;
}

void choose_pointwise_layouts(const Pointwise& op, KernelIo& io) {
  const Shape& full = io.outputs.front().shape;
  Layout layout = Layout::row_major(full);
  for (const TensorDesc& in : io.inputs) {
    if (in.shape != full) continue;
    layout = in.layout_or_row_major();
    break;
  }
  const std::int64_t span = layout.span();
  const bool dense = layout.blocks.empty() && !is_padded(layout, full) && span == full.elements();
  const bool repeats = span < full.elements();  // as an expanded view does
  const bool usable = dense || (!broadcasts(io) && op.keeps_zero() && !repeats);
  if (!usable) layout = Layout::row_major(full);
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc.layout = desc.shape == full ? layout : Layout::row_major(desc.shape);
  }
}

}  // namespace lockstep::kernels
