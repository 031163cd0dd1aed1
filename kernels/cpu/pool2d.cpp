#include "kernels/pool2d.h"

#include <cstddef>

#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/pool_indices.h"

namespace lockstep::kernels {
namespace {

constexpr Pool2dGeometry no_window{};  ///< an adaptive pool's follows from the extents

/// Where a plane begins, in elements, and the bytes of one.
struct PlaneStart {
  std::int64_t element, bytes;

  template <class Byte>
  Byte* in(Byte* tensor) const {
    return tensor + element * bytes;
  }
};

/// A kernel that walks the planes of x and y, or of their gradients: `on_plane(plane, addresses, start in x,
/// start in y)`.
template <class OnPlane>
KernelPtr pool_kernel(const KernelIo& io, const Pool2dGeometry& g, const TensorDesc& x, const TensorDesc& y,
                      OnPlane on_plane) {
  const PoolPlanes planes = pool_planes(x, y);
  const std::int64_t elements = x.layout_or_row_major().span();
  const PoolPlane plane{x.shape[2],   x.shape[3],     y.shape[2],     y.shape[3],   planes.x.row,
                        planes.y.row, planes.x.pixel, planes.x.lanes, g.kernel[0],  g.kernel[1],
                        g.stride[0],  g.stride[1],    g.padding[0],   g.padding[1], x.dtype};
  const std::int64_t count = x.shape[0] * planes.x.groups;
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype));
  return cpu_kernel(
      io, [plane, count, elements, bytes, on_plane, in = planes.x, out = planes.y](const Addresses& a) {
        parallel_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t image = i / in.groups;
            const std::int64_t group = i % in.groups;
            on_plane(plane, a, PlaneStart{image * in.image + group * in.group, bytes},
                     PlaneStart{image * out.image + group * out.group, bytes});
          }
        });
      });
}

template <class Op>
KernelPtr forward_kernel(const Op& op, const KernelIo& io, const Pool2dGeometry& window) {
  return pool_kernel(io, window, io.inputs[Op::x], io.outputs[Op::y],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     const PlaneStart& x, const PlaneStart& y) {
                       kernel(op, plane, x.in(a.in<std::byte>(Op::x)), y.in(a.out<std::byte>(Op::y)));
                     });
}

/// Of an average, whose gradient needs dy alone.
template <class Op>
KernelPtr backward_kernel(const Op& op, const KernelIo& io, const Pool2dGeometry& window) {
  return pool_kernel(io, window, io.outputs[Op::dx], io.inputs[Op::dy],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     const PlaneStart& x, const PlaneStart& y) {
                       kernel(op, plane, y.in(a.in<std::byte>(Op::dy)), x.in(a.out<std::byte>(Op::dx)));
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
                                                     const PlaneStart& x, const PlaneStart& y) {
                       kernel(op, plane, x.in(a.in<std::byte>(Op::x)), y.in(a.in<std::byte>(Op::dy)),
                              x.in(a.out<std::byte>(Op::dx)));
                     });
}

void choose_layouts(Cpu, const MaxPool2dWithIndices&, KernelIo& io) {
  choose_indexed_layouts(io);
}

void choose_layouts(Cpu, const MaxPool2dWithIndicesBackward&, KernelIo& io) {
  choose_indexed_gradient_layouts(io);
}

KernelPtr prepare(Cpu, const MaxPool2dWithIndices& op, const KernelIo& io) {
  using Op = MaxPool2dWithIndices;
  require_same_layout(io.outputs[Op::y], io.outputs[Op::indices]);
  return pool_kernel(io, op.geometry, io.inputs[Op::x], io.outputs[Op::y],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     const PlaneStart& x, const PlaneStart& y) {
                       kernel(op, plane, x.in(a.in<std::byte>(Op::x)), y.in(a.out<std::byte>(Op::y)),
                              a.out<std::uint8_t>(Op::indices) + y.element);
                     });
}

KernelPtr prepare(Cpu, const MaxPool2dWithIndicesBackward& op, const KernelIo& io) {
  using Op = MaxPool2dWithIndicesBackward;
  require_same_layout(io.inputs[Op::dy], io.inputs[Op::indices]);
  return pool_kernel(io, op.geometry, io.outputs[Op::dx], io.inputs[Op::dy],
                     [op, kernel = simd::best<Op>()](const PoolPlane& plane, const Addresses& a,
                                                     const PlaneStart& x, const PlaneStart& y) {
                       kernel(op, plane, y.in(a.in<std::byte>(Op::dy)),
                              a.in<std::uint8_t>(Op::indices) + y.element, x.in(a.out<std::byte>(Op::dx)));
                     });
}

KernelPtr prepare(Cpu, const AvgPool2d& op, const KernelIo& io) {
  return forward_kernel(op, io, op.geometry);
}

KernelPtr prepare(Cpu, const AvgPool2dBackward& op, const KernelIo& io) {
  return backward_kernel(op, io, op.geometry);
}

}  // namespace lockstep::kernels
