#include "kernels/pool2d.h"

#include <fmt/format.h>

#include <optional>

#include "kernels/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/op_rules.h"

namespace lockstep::kernels {
namespace {

using loops::PoolPlane;

/// A layout seen as images of groups of planes: `lanes` channels side by side, pixel by pixel.
struct Planes {
  std::int64_t lanes, groups;             ///< groups * lanes: the channels, padded
  std::int64_t image, group, row, pixel;  ///< strides, in elements
};

/// Nothing for a layout that is neither plain, channels-last, nor blocked in channels alone.
std::optional<Planes> planes_of(const Layout& l) {
  const bool blocked = l.blocks.size() == 1 && l.blocks[0].dim == 1;
  if (!blocked && !l.blocks.empty()) return std::nullopt;
  if (blocked) {
    const std::int64_t lanes = l.blocks[0].size;
    return Planes{lanes, l.padded[1] / lanes, l.strides[0], l.strides[1], l.strides[2], l.strides[3]};
  }
  if (l.strides[1] == 1) return Planes{l.padded[1], 1, l.strides[0], 0, l.strides[2], l.strides[3]};
  return Planes{1, l.padded[1], l.strides[0], l.strides[1], l.strides[2], l.strides[3]};
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

/// A kernel that walks the planes of x and y, and, when it is there, dx, which lies as x does.
template <class OnPlane>
KernelPtr pool_kernel(std::string_view kernel, const Pool2dGeometry& g, const TensorDesc& x,
                      const TensorDesc& y, OnPlane on_plane) {
  check_pool2d(kernel, g, x, y);
  const Layout layout = x.layout_or_plain();
  const std::int64_t elements = layout.span();
  const auto in = planes_of(layout);
  const auto out = planes_of(y.layout_or_plain());
  if (!in || !out || in->lanes != out->lanes || in->pixel != out->pixel) {
    throw UsageError(
        fmt::format("{}: x in {} and y in {}: both must be plain, channels-last, or blocked in channels "
                    "alike",
                    kernel, layout.str(), y.layout_or_plain().str()));
  }
  const PoolPlane plane{x.shape[2],  x.shape[3],  y.shape[2],   y.shape[3],  in->row,
                        out->row,    in->pixel,   in->lanes,    g.kernel[0], g.kernel[1],
                        g.stride[0], g.stride[1], g.padding[0], g.padding[1]};
  const std::int64_t count = x.shape[0] * in->groups;
  return loop_kernel([plane, count, elements, on_plane, in = *in, out = *out](const Addresses& a) {
    parallel_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / in.groups;
        const std::int64_t group = i % in.groups;
        on_plane(plane, a, image * in.image + group * in.group, image * out.image + group * out.group);
      }
    });
  });
}

/// x's layout if a pool can use it (or y's, if x is free), else plain; everything else follows.
void choose(std::string_view kernel, const Pool2dGeometry& g, TensorDesc& x, TensorDesc& y) {
  check_pool2d(kernel, g, x, y);
  if (!x.layout && y.layout && planes_of(*y.layout)) {
    x.layout = resized(*y.layout, x.shape);
    return;
  }
  if (!x.layout || !planes_of(*x.layout)) x.layout = Layout::plain(x.shape);
  y.layout = resized(*x.layout, y.shape);
}

}  // namespace

void choose_layouts(Cpu, const MaxPool2dForward& spec, KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  choose("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cpu, const MaxPool2dBackward& spec, KernelIo& io) {
  check_count("max_pool2d_backward", io, 2, 1);
  choose("max_pool2d_backward", spec.geometry, io.inputs[0], io.inputs[1]);
  io.outputs[0].layout = io.inputs[0].layout;
}

void choose_layouts(Cpu, const AvgPool2dForward& spec, KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  choose("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cpu, const AvgPool2dBackward& spec, KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  choose("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0]);
}

KernelPtr prepare(Cpu, const MaxPool2dForward& spec, const KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  return pool_kernel("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().max_pool(plane, a.at(0) + x, a.at(1) + y);
                     });
}

KernelPtr prepare(Cpu, const MaxPool2dBackward& spec, const KernelIo& io) {
  check_count("max_pool2d_backward", io, 2, 1);
  check_shape("max_pool2d_backward", "dx", io.outputs[0], io.inputs[0].shape);
  if (io.outputs[0].layout_or_plain() != io.inputs[0].layout_or_plain()) {
    throw UsageError("max_pool2d_backward: x and dx lie differently; they must lie alike");
  }
  return pool_kernel("max_pool2d_backward", spec.geometry, io.inputs[0], io.inputs[1],
                     [relu_mask = spec.relu_mask](const PoolPlane& plane, const Addresses& a, std::int64_t x,
                                                  std::int64_t y) {
                       loops::best().max_pool_backward(plane, relu_mask, a.at(0) + x, a.at(1) + y,
                                                       a.at(2) + x);
                     });
}

KernelPtr prepare(Cpu, const AvgPool2dForward& spec, const KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  return pool_kernel("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().avg_pool(plane, a.at(0) + x, a.at(1) + y);
                     });
}

KernelPtr prepare(Cpu, const AvgPool2dBackward& spec, const KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  return pool_kernel("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().avg_pool_backward(plane, a.at(0) + y, a.at(1) + x);
                     });
}

}  // namespace lockstep::kernels
