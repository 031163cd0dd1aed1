#include "kernels/pool2d.h"

#include "kernels/check.h"
#include "kernels/cpu/loop_kernel.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/pool_planes.h"

namespace lockstep::kernels {
namespace {

using loops::PoolPlane;

/// A kernel that walks the planes of x and y, and, when it is there, dx, which lies as x does.
template <class OnPlane>
KernelPtr pool_kernel(const Pool2dGeometry& g, const PoolPlanes& planes, const TensorDesc& x,
                      const TensorDesc& y, OnPlane on_plane) {
  const std::int64_t elements = x.layout_or_plain().span();
  const PoolPlane plane{x.shape[2],   x.shape[3],     y.shape[2],     y.shape[3],  planes.x.row,
                        planes.y.row, planes.x.pixel, planes.x.lanes, g.kernel[0], g.kernel[1],
                        g.stride[0],  g.stride[1],    g.padding[0],   g.padding[1]};
  const std::int64_t count = x.shape[0] * planes.x.groups;
  return loop_kernel([plane, count, elements, on_plane, in = planes.x, out = planes.y](const Addresses& a) {
    parallel_ranges(count, elements, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t image = i / in.groups;
        const std::int64_t group = i % in.groups;
        on_plane(plane, a, image * in.image + group * in.group, image * out.image + group * out.group);
      }
    });
  });
}

}  // namespace

void choose_layouts(Cpu, const MaxPool2dForward& spec, KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  choose_pool_layouts("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cpu, const MaxPool2dBackward& spec, KernelIo& io) {
  check_count("max_pool2d_backward", io, 2, 1);
  choose_pool_layouts("max_pool2d_backward", spec.geometry, io.inputs[0], io.inputs[1]);
  io.outputs[0].layout = io.inputs[0].layout;
}

void choose_layouts(Cpu, const AvgPool2dForward& spec, KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  choose_pool_layouts("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cpu, const AvgPool2dBackward& spec, KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  choose_pool_layouts("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0]);
}

KernelPtr prepare(Cpu, const MaxPool2dForward& spec, const KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  const PoolPlanes planes = pool_planes("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
  return pool_kernel(spec.geometry, planes, io.inputs[0], io.outputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().max_pool(plane, a.at(0) + x, a.at(1) + y);
                     });
}

KernelPtr prepare(Cpu, const MaxPool2dBackward& spec, const KernelIo& io) {
  const PoolPlanes planes = max_pool_backward_planes("max_pool2d_backward", spec.geometry, io);
  return pool_kernel(spec.geometry, planes, io.inputs[0], io.inputs[1],
                     [relu_mask = spec.relu_mask](const PoolPlane& plane, const Addresses& a, std::int64_t x,
                                                  std::int64_t y) {
                       loops::best().max_pool_backward(plane, relu_mask, a.at(0) + x, a.at(1) + y,
                                                       a.at(2) + x);
                     });
}

KernelPtr prepare(Cpu, const AvgPool2dForward& spec, const KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  const PoolPlanes planes = pool_planes("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
  return pool_kernel(spec.geometry, planes, io.inputs[0], io.outputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().avg_pool(plane, a.at(0) + x, a.at(1) + y);
                     });
}

KernelPtr prepare(Cpu, const AvgPool2dBackward& spec, const KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  const PoolPlanes planes = pool_planes("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0]);
  return pool_kernel(spec.geometry, planes, io.outputs[0], io.inputs[0],
                     [](const PoolPlane& plane, const Addresses& a, std::int64_t x, std::int64_t y) {
                       loops::best().avg_pool_backward(plane, a.at(0) + y, a.at(1) + x);
                     });
}

}  // namespace lockstep::kernels
