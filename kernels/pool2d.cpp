#include "kernels/pool2d.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/pool_indices.h"

namespace lockstep::kernels {
namespace {

Planes one_lane(const Layout& l) {
  return {1, l.padded[1], l.strides[0], l.strides[1], l.strides[2], l.strides[3]};
}

/// The layout of the same kind for another picture size.
Layout resized(const Layout& layout, const Shape& shape) {
  Layout to{.padded = shape, .strides = shape, .blocks = layout.blocks};
  to.padded[1] = layout.padded[1];
  const bool last = layout.blocks.empty() && layout.strides[1] == 1 && shape[1] > 1;
  const std::int64_t lanes = layout.blocks.empty() ? (last ? shape[1] : 1) : layout.blocks[0].size;
  to.strides[3] = lanes;
  to.strides[2] = lanes * shape[3];
  to.strides[1] = last ? 1 : to.strides[2] * shape[2];
  to.strides[0] = to.padded[1] * shape[2] * shape[3];
  return to;
}

}  // namespace

std::optional<Planes> pool_planes(const Layout& l) {
  const bool blocked = l.blocks.size() == 1 && l.blocks[0].dim == 1;
  if (!blocked && !l.blocks.empty()) return std::nullopt;
  if (blocked) {
    const std::int64_t lanes = l.blocks[0].size;
    return Planes{lanes, l.padded[1] / lanes, l.strides[0], l.strides[1], l.strides[2], l.strides[3]};
  }
  if (l.strides[1] == 1) return Planes{l.padded[1], 1, l.strides[0], 0, l.strides[2], l.strides[3]};
  return one_lane(l);
}

PoolPlanes pool_planes(const TensorDesc& x, const TensorDesc& y) {
  const Layout of_x = x.layout_or_row_major();
  const Layout of_y = y.layout_or_row_major();
  auto in = pool_planes(of_x);
  auto out = pool_planes(of_y);
  const bool strided = of_x.blocks.empty() && of_y.blocks.empty();
  if (strided && in->lanes != out->lanes) {  // pictures of one pixel are row-major and channels-last at once
    in = one_lane(of_x);
    out = one_lane(of_y);
  }
  if (in && out && y.shape[3] == 1) out->pixel = in->pixel;
  if (in && out && x.shape[3] == 1) in->pixel = out->pixel;
  if (!in || !out || in->lanes != out->lanes || in->pixel != out->pixel) {
    throw UsageError(fmt::format(
        "x in {} and y in {}: both must be row-major, channels-last, or blocked in channels alike",
        of_x.str(), of_y.str()));
  }
  return {*in, *out};
}

void choose_pool_layouts(TensorDesc& x, TensorDesc& y) {
  if (!x.layout && y.layout && pool_planes(*y.layout)) {
    x.layout = resized(*y.layout, x.shape);
    return;
  }
  if (!x.layout || !pool_planes(*x.layout)) x.layout = Layout::row_major(x.shape);
  y.layout = resized(*x.layout, y.shape);
}

void choose_indexed_layouts(KernelIo& io) {
  using Op = MaxPool2dWithIndices;
  choose_pool_layouts(io.inputs[Op::x], io.outputs[Op::y]);
  io.outputs[Op::indices].layout = io.outputs[Op::y].layout;
}

void choose_indexed_gradient_layouts(KernelIo& io) {
  using Op = MaxPool2dWithIndicesBackward;
  TensorDesc& indices = io.inputs[Op::indices];
  TensorDesc& dx = io.outputs[Op::dx];
  if (!indices.layout) indices.layout = io.inputs[Op::dy].layout;
  choose_pool_layouts(dx, indices);
  io.inputs[Op::dy].layout = indices.layout;
}

}  // namespace lockstep::kernels
