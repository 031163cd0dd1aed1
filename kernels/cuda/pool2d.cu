#include "kernels/pool2d.h"

#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/check.h"
#include "kernels/cuda/channels_last.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/pool_walk.h"
#include "kernels/pool_planes.h"

// Backward gathers: each element of dx looks at the windows that it lies in, in their order. So nothing is
// added by several threads, and the sums have one order.
namespace lockstep::kernels {
namespace {

struct MaxForward {
  static constexpr bool over_input = false;

  template <int lanes, class Index>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const float* x, float* y) const {
    auto best = Floats<lanes>::all(-INFINITY);
    Spot<Index> pixel = at;
    for_each_pixel(p, at.row, at.column, [&](Index row, Index column) {
      pixel.row = row;
      pixel.column = column;
      const auto value = load<lanes>(x + pixel.in(p.x));
      for (int lane = 0; lane < lanes; ++lane) {
        if (replaces(value.at[lane], best.at[lane])) best.at[lane] = value.at[lane];
      }
    });
    store(y + at.in(p.y), best);
  }
};

struct MaxBackward {
  static constexpr bool over_input = true;
  bool relu_mask;

  template <int lanes, class Index>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const float* x, const float* dy,
                      float* dx) const {
    auto sum = Floats<lanes>::all(0);
    Spot<Index> out = at;
    Spot<Index> pixel = at;
    for_each_window(p, at.row, at.column, [&](Index out_row, Index out_column) {
      auto best = Floats<lanes>::all(-INFINITY);
      bool mine[lanes] = {};
      bool first = true;
      for_each_pixel(p, out_row, out_column, [&](Index row, Index column) {
        pixel.row = row;
        pixel.column = column;
        const bool here = row == at.row && column == at.column;
        const auto value = load<lanes>(x + pixel.in(p.x));
        for (int lane = 0; lane < lanes; ++lane) {
          const bool better = first || replaces(value.at[lane], best.at[lane]);
          best.at[lane] = better ? value.at[lane] : best.at[lane];
          mine[lane] = better ? here : mine[lane];
        }
        first = false;
      });
      out.row = out_row;
      out.column = out_column;
      const auto gradient = load<lanes>(dy + out.in(p.y));
      for (int lane = 0; lane < lanes; ++lane) {
        if (mine[lane] && (!relu_mask || best.at[lane] > 0)) sum.at[lane] += gradient.at[lane];
      }
    });
    store(dx + at.in(p.x), sum);
  }
};

struct AvgForward {
  static constexpr bool over_input = false;

  template <int lanes, class Index>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const float* x, float* y) const {
    auto sum = Floats<lanes>::all(0);
    Spot<Index> pixel = at;
    for_each_pixel(p, at.row, at.column, [&](Index row, Index column) {
      pixel.row = row;
      pixel.column = column;
      const auto value = load<lanes>(x + pixel.in(p.x));
      for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += value.at[lane];
    });
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    for (int lane = 0; lane < lanes; ++lane) sum.at[lane] /= size;
    store(y + at.in(p.y), sum);
  }
};

struct AvgBackward {
  static constexpr bool over_input = true;

  template <int lanes, class Index>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const float* dy, float* dx) const {
    const auto size = static_cast<float>(p.kernel_h * p.kernel_w);
    auto sum = Floats<lanes>::all(0);
    Spot<Index> out = at;
    for_each_window(p, at.row, at.column, [&](Index row, Index column) {
      out.row = row;
      out.column = column;
      const auto gradient = load<lanes>(dy + out.in(p.y));
      for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += gradient.at[lane] / size;
    });
    store(dx + at.in(p.x), sum);
  }
};

template <class Op, int lanes, class Index, class... Pointers>
__global__ void pool(Op op, Pool<Index> p, std::int64_t items, Pointers... pointers) {
  const Index height = Op::over_input ? p.height : p.out_height;
  const Index width = Op::over_input ? p.width : p.out_width;
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    op.template run<lanes>(p, spot_of<lanes>(static_cast<Index>(item), p, height, width), pointers...);
  }
}

template <class Index>
Pool<Index> narrowed(const Pool2dGeometry& g, const PoolPlanes& planes, const Shape& x, const Shape& y) {
  const auto as = [](std::int64_t value) { return static_cast<Index>(value); };
  return {Strides<Index>(planes.x),
          Strides<Index>(planes.y),
          as(planes.x.lanes),
          as(planes.x.groups),
          as(x[2]),
          as(x[3]),
          as(y[2]),
          as(y[3]),
          as(g.kernel[0]),
          as(g.kernel[1]),
          as(g.stride[0]),
          as(g.stride[1]),
          as(g.padding[0]),
          as(g.padding[1])};
}

template <class Op, int lanes, class Index, class... Pointers, std::size_t... argument>
KernelPtr pool_kernel(const Op& op, const Pool<Index>& p, std::int64_t items,
                      std::index_sequence<argument...>) {
  return cuda_kernel([=, s = spread(items)](const Addresses& a, cudaStream_t stream) {
    launch(pool<Op, lanes, Index, Pointers...>, s.blocks, s.threads, 0, stream, op, p, items,
           a.at(argument)...);
  });
}

/// `Pointers`: the types of the kernel's inputs, then outputs.
template <class... Pointers, class Op>
KernelPtr pool_kernel(const Op& op, const Pool2dGeometry& g, const PoolPlanes& planes, const TensorDesc& x,
                      const TensorDesc& y) {
  const Shape& shape = Op::over_input ? x.shape : y.shape;
  const std::int64_t items = shape[0] * planes.x.groups * planes.x.lanes * shape[2] * shape[3];
  bool four = planes.x.lanes % 4 == 0;
  for (const Planes& p : {planes.x, planes.y}) {
    for (const std::int64_t stride : {p.image, p.group, p.row, p.pixel}) four = four && stride % 4 == 0;
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool narrow = x.layout_or_plain().span() <= most && y.layout_or_plain().span() <= most;
  constexpr auto arguments = std::index_sequence_for<Pointers...>();
  const auto make = [&]<class Index>(const Pool<Index>& p) {
    return four ? pool_kernel<Op, 4, Index, Pointers...>(op, p, items / 4, arguments)
                : pool_kernel<Op, 1, Index, Pointers...>(op, p, items, arguments);
  };
  return narrow ? make(narrowed<std::int32_t>(g, planes, x.shape, y.shape))
                : make(narrowed<std::int64_t>(g, planes, x.shape, y.shape));
}

/// A pool keeps the layout that it finds; where it finds none, the GPU's.
void choose(std::string_view kernel, const Pool2dGeometry& g, TensorDesc& x, TensorDesc& y) {
  if (!x.layout && !y.layout && x.shape.rank() == 4) x.layout = channels_last(x.shape);
  choose_pool_layouts(kernel, g, x, y);
}

}  // namespace

void choose_layouts(Cuda, const MaxPool2dForward& spec, KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  choose("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cuda, const MaxPool2dBackward& spec, KernelIo& io) {
  check_count("max_pool2d_backward", io, 2, 1);
  choose("max_pool2d_backward", spec.geometry, io.inputs[0], io.inputs[1]);
  io.outputs[0].layout = io.inputs[0].layout;
}

void choose_layouts(Cuda, const AvgPool2dForward& spec, KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  choose("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
}

void choose_layouts(Cuda, const AvgPool2dBackward& spec, KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  choose("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0]);
}

KernelPtr prepare(Cuda, const MaxPool2dForward& spec, const KernelIo& io) {
  check_count("max_pool2d_forward", io, 1, 1);
  const PoolPlanes planes = pool_planes("max_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
  return pool_kernel<const float*, float*>(MaxForward{}, spec.geometry, planes, io.inputs[0], io.outputs[0]);
}

KernelPtr prepare(Cuda, const MaxPool2dBackward& spec, const KernelIo& io) {
  const PoolPlanes planes = max_pool_backward_planes("max_pool2d_backward", spec.geometry, io);
  return pool_kernel<const float*, const float*, float*>(MaxBackward{spec.relu_mask}, spec.geometry, planes,
                                                         io.inputs[0], io.inputs[1]);
}

KernelPtr prepare(Cuda, const AvgPool2dForward& spec, const KernelIo& io) {
  check_count("avg_pool2d_forward", io, 1, 1);
  const PoolPlanes planes = pool_planes("avg_pool2d_forward", spec.geometry, io.inputs[0], io.outputs[0]);
  return pool_kernel<const float*, float*>(AvgForward{}, spec.geometry, planes, io.inputs[0], io.outputs[0]);
}

KernelPtr prepare(Cuda, const AvgPool2dBackward& spec, const KernelIo& io) {
  check_count("avg_pool2d_backward", io, 1, 1);
  const PoolPlanes planes = pool_planes("avg_pool2d_backward", spec.geometry, io.outputs[0], io.inputs[0]);
  return pool_kernel<const float*, float*>(AvgBackward{}, spec.geometry, planes, io.outputs[0], io.inputs[0]);
}

}  // namespace lockstep::kernels
