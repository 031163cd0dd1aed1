#include "kernels/pool2d.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/pool_kernel.h"

// Backward gathers: each element of dx looks at the windows that it lies in, in their order. So nothing is
// added by several threads, and the sums have one order.
namespace lockstep::kernels {
namespace {

struct MaxForward {
  static constexpr bool over_input = false;

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* x, Element* y) const {
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

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* x, const Element* dy,
                      Element* dx) const {
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

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* x, Element* y) const {
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

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* dy, Element* dx) const {
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

struct AdaptiveForward {
  static constexpr bool over_input = false;

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* x, Element* y) const {
    const Range<Index> rows = adaptive_window(at.row, p.out_height, p.height);
    const Range<Index> columns = adaptive_window(at.column, p.out_width, p.width);
    auto sum = Floats<lanes>::all(0);
    Spot<Index> pixel = at;
    for (pixel.row = rows.begin; pixel.row < rows.end; ++pixel.row) {
      for (pixel.column = columns.begin; pixel.column < columns.end; ++pixel.column) {
        const auto value = load<lanes>(x + pixel.in(p.x));
        for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += value.at[lane];
      }
    }
    const auto size = static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
    for (int lane = 0; lane < lanes; ++lane) sum.at[lane] /= size;
    store(y + at.in(p.y), sum);
  }
};

struct AdaptiveBackward {
  static constexpr bool over_input = true;

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* dy, Element* dx) const {
    const Range<Index> rows = adaptive_window(at.row, p.height, p.out_height);
    const Range<Index> columns = adaptive_window(at.column, p.width, p.out_width);
    auto sum = Floats<lanes>::all(0);
    Spot<Index> out = at;
    for (out.row = rows.begin; out.row < rows.end; ++out.row) {
      const Range<Index> height = adaptive_window(out.row, p.out_height, p.height);
      for (out.column = columns.begin; out.column < columns.end; ++out.column) {
        const Range<Index> width = adaptive_window(out.column, p.out_width, p.width);
        const auto size = static_cast<float>((height.end - height.begin) * (width.end - width.begin));
        const auto gradient = load<lanes>(dy + out.in(p.y));
        for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += gradient.at[lane] / size;
      }
    }
    store(dx + at.in(p.x), sum);
  }
};

constexpr Pool2dGeometry no_window{};  ///< an adaptive pool's follows from the extents

}  // namespace

void choose_layouts(Cuda, const AdaptiveAvgPool2d&, KernelIo& io) {
  choose_gpu_pool_layouts(io.inputs[AdaptiveAvgPool2d::x], io.outputs[AdaptiveAvgPool2d::y]);
}

void choose_layouts(Cuda, const AdaptiveAvgPool2dBackward&, KernelIo& io) {
  choose_gpu_pool_layouts(io.outputs[AdaptiveAvgPool2dBackward::dx],
                          io.inputs[AdaptiveAvgPool2dBackward::dy]);
}

KernelPtr prepare(Cuda, const AdaptiveAvgPool2d&, const KernelIo& io) {
  using Op = AdaptiveAvgPool2d;
  return with_element(io.inputs[Op::x].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*>(io, AdaptiveForward{}, no_window, io.inputs[Op::x],
                                                 io.outputs[Op::y]);
  });
}

KernelPtr prepare(Cuda, const AdaptiveAvgPool2dBackward&, const KernelIo& io) {
  using Op = AdaptiveAvgPool2dBackward;
  return with_element(io.inputs[Op::dy].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*>(io, AdaptiveBackward{}, no_window, io.outputs[Op::dx],
                                                 io.inputs[Op::dy]);
  });
}

void choose_layouts(Cuda, const MaxPool2d&, KernelIo& io) {
  choose_gpu_pool_layouts(io.inputs[MaxPool2d::x], io.outputs[MaxPool2d::y]);
}

void choose_layouts(Cuda, const MaxPool2dBackward&, KernelIo& io) {
  using Op = MaxPool2dBackward;
  choose_gpu_pool_layouts(io.inputs[Op::x], io.inputs[Op::dy]);
  io.outputs[Op::dx].layout = io.inputs[Op::x].layout;
}

void choose_layouts(Cuda, const AvgPool2d&, KernelIo& io) {
  choose_gpu_pool_layouts(io.inputs[AvgPool2d::x], io.outputs[AvgPool2d::y]);
}

void choose_layouts(Cuda, const AvgPool2dBackward&, KernelIo& io) {
  choose_gpu_pool_layouts(io.outputs[AvgPool2dBackward::dx], io.inputs[AvgPool2dBackward::dy]);
}

KernelPtr prepare(Cuda, const MaxPool2d& op, const KernelIo& io) {
  return with_element(io.inputs[MaxPool2d::x].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*>(io, MaxForward{}, op.geometry, io.inputs[MaxPool2d::x],
                                                 io.outputs[MaxPool2d::y]);
  });
}

KernelPtr prepare(Cuda, const MaxPool2dBackward& op, const KernelIo& io) {
  using Op = MaxPool2dBackward;
  require_same_layout(io.inputs[Op::x], io.outputs[Op::dx]);
  return with_element(io.inputs[Op::x].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, const Element*, Element*>(io, MaxBackward{op.relu_mask}, op.geometry,
                                                                 io.inputs[Op::x], io.inputs[Op::dy]);
  });
}

KernelPtr prepare(Cuda, const AvgPool2d& op, const KernelIo& io) {
  return with_element(io.inputs[AvgPool2d::x].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*>(io, AvgForward{}, op.geometry, io.inputs[AvgPool2d::x],
                                                 io.outputs[AvgPool2d::y]);
  });
}

KernelPtr prepare(Cuda, const AvgPool2dBackward& op, const KernelIo& io) {
  using Op = AvgPool2dBackward;
  return with_element(io.inputs[Op::dy].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*>(io, AvgBackward{}, op.geometry, io.outputs[Op::dx],
                                                 io.inputs[Op::dy]);
  });
}

}  // namespace lockstep::kernels
