#include "kernels/pool2d.h"

#include <cstddef>

#include "kernels/base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

constexpr Pool2dGeometry no_window{};  ///< an adaptive pool's follows from the extents

/// A kernel that walks the planes of x and y, or of their gradients: `on_plane(plane, addresses, offset in x,
/// offset in y)`, offsets in bytes.
template <class OnPlane>
KernelPtr pool_kernel(const KernelIo& io, const Pool2dGeometry& g, const TensorDesc& x, const TensorDesc& y,
                      OnPlane on_plane) {
  if (x.dtype == DType::f16) throw UsageError("pool2d: f16 is computed on GPUs; use bf16");
  const PoolPlanes planes = pool_planes(x, y);
  const std::int64_t elements = x.layout_or_row_major().span();
  const PoolPlane plane{x.shape[2],   x.shape[3],     y.shape[2],     y.shape[3],   planes.x.row,
                        planes.y.row, planes.x.pixel, planes.x.lanes, g.kernel[0],  g.kernel[1],
                        g.stride[0],  g.stride[1],    g.padding[0],   g.padding[1], x.dtype};
  const std::int64_t count = x.shape[0] * planes.x.groups;
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype));
  return simd_kernel(
      io, [plane, count, elements, bytes, on_plane, in = planes.x, out = planes.y](const Addresses& a) {
        parallel_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t image = i / in.groups;
            const std::int64_t group = i % in.groups;
            on_plane(plane, a, bytes * (image * in.image + group * in.group),
                     bytes * (image * out.image + group * out.group));
          }
        });
      });
}

template <class Op>
KernelPtr forward_kernel(const Op& op, const KernelIo& io, const Pool2dGeometry& window) {
  return pool_kernel(io, window, io.inputs[Op::x], io.outputs[Op::y],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     std::int64_t x, std::int64_t y) {
                       kernel(op, plane, a.in<std::byte>(Op::x) + x, a.out<std::byte>(Op::y) + y);
                     });
}

/// Of an average, whose gradient needs dy alone.
template <class Op>
KernelPtr backward_kernel(const Op& op, const KernelIo& io, const Pool2dGeometry& window) {
  return pool_kernel(io, window, io.outputs[Op::dx], io.inputs[Op::dy],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     std::int64_t x, std::int64_t y) {
                       kernel(op, plane, a.in<std::byte>(Op::dy) + y, a.out<std::byte>(Op::dx) + x);
                     });
}

}  // namespace

void choose_layouts(Cpu, const AdaptiveAvgPool2d&, KernelIo& io) {
  choose_pool_layouts(io.inputs[AdaptiveAvgPool2d::x], io.outputs[AdaptiveAvgPool2d::y]);
}

void choose_layouts(Cpu, const AdaptiveAvgPool2dBackward&, KernelIo& io) {
  using Op = AdaptiveAvgPool2dBackward;
  choose_pool_layouts(io.outputs[Op::dx], io.inputs[Op::dy]);
}

KernelPtr prepare(Cpu, const AdaptiveAvgPool2d& op, const KernelIo& io) {
  return forward_kernel(op, io, no_window);
}

KernelPtr prepare(Cpu, const AdaptiveAvgPool2dBackward& op, const KernelIo& io) {
  return backward_kernel(op, io, no_window);
}

void choose_layouts(Cpu, const MaxPool2d&, KernelIo& io) {
  choose_pool_layouts(io.inputs[MaxPool2d::x], io.outputs[MaxPool2d::y]);
}

void choose_layouts(Cpu, const MaxPool2dBackward&, KernelIo& io) {
  using Op = MaxPool2dBackward;
  choose_pool_layouts(io.inputs[Op::x], io.inputs[Op::dy]);
  io.outputs[Op::dx].layout = io.inputs[Op::x].layout;
}

void choose_layouts(Cpu, const AvgPool2d&, KernelIo& io) {
  choose_pool_layouts(io.inputs[AvgPool2d::x], io.outputs[AvgPool2d::y]);
}

void choose_layouts(Cpu, const AvgPool2dBackward&, KernelIo& io) {
  choose_pool_layouts(io.outputs[AvgPool2dBackward::dx], io.inputs[AvgPool2dBackward::dy]);
}

KernelPtr prepare(Cpu, const MaxPool2d& op, const KernelIo& io) {
  return forward_kernel(op, io, op.geometry);
}

KernelPtr prepare(Cpu, const MaxPool2dBackward& op, const KernelIo& io) {
  using Op = MaxPool2dBackward;
  require_same_layout(io.inputs[Op::x], io.outputs[Op::dx]);
  return pool_kernel(io, op.geometry, io.inputs[Op::x], io.inputs[Op::dy],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     std::int64_t x, std::int64_t y) {
                       kernel(op, plane, a.in<std::byte>(Op::x) + x, a.in<std::byte>(Op::dy) + y,
                              a.out<std::byte>(Op::dx) + x);
                     });
}

KernelPtr prepare(Cpu, const AvgPool2d& op, const KernelIo& io) {
  return forward_kernel(op, io, op.geometry);
}

KernelPtr prepare(Cpu, const AvgPool2dBackward& op, const KernelIo& io) {
  return backward_kernel(op, io, op.geometry);
}

}  // namespace lockstep::kernels
