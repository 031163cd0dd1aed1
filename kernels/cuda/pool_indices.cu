#include "kernels/pool_indices.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/pool_kernel.h"

// Backward gathers, as the other pools' does: each element of dx adds the gradients of those windows over it
// that name it, in their order.
namespace lockstep::kernels {
namespace {

template <int lanes>
using Places = Pack<std::uint8_t, lanes>;

/// The place of a pixel of the input in the window at (row, column) of the output.
template <class Index>
__device__ int place_in_window(const Pool<Index>& p, Index row, Index column, Index pixel_row,
                               Index pixel_column) {
  return static_cast<int>((pixel_row - row * p.stride_h + p.padding_h) * p.kernel_w + pixel_column -
                          column * p.stride_w + p.padding_w);
}

struct IndexedForward {
  static constexpr bool over_input = false;
  bool relu_mask;

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* x, Element* y,
                      std::uint8_t* indices) const {
    auto best = Floats<lanes>::all(0);
    int winner[lanes] = {};
    bool first = true;
    Spot<Index> pixel = at;
    for_each_pixel(p, at.row, at.column, [&](Index row, Index column) {
      pixel.row = row;
      pixel.column = column;
      const auto value = load<lanes>(x + pixel.in(p.x));
      const int place = place_in_window(p, at.row, at.column, row, column);
      for (int lane = 0; lane < lanes; ++lane) {
        const bool better = first || replaces(value.at[lane], best.at[lane]);
        best.at[lane] = better ? value.at[lane] : best.at[lane];
        winner[lane] = better ? place : winner[lane];
      }
      first = false;
    });
    store(y + at.in(p.y), best);
    Places<lanes> places;
    for (int lane = 0; lane < lanes; ++lane) {
      const bool passes = !relu_mask || best.at[lane] > 0;
      places.at[lane] = static_cast<std::uint8_t>(passes ? winner[lane] : MaxPool2dWithIndices::no_place);
    }
    *aligned_cast<Places<lanes>>(indices + at.in(p.y)) = places;
  }
};

/// Rows that lie in the same windows are one thread's, which finds what it read in the cache.
struct IndexedBackward {
  static constexpr bool over_input = true;
  using in_strips = void;

  template <int lanes, class Index, class Element>
  __device__ void run(const Pool<Index>& p, Spot<Index> at, const Element* dy, const std::uint8_t* indices,
                      Element* dx) const {
    const Index first = at.row * p.stride_h;
    const Index end = first + p.stride_h < p.height ? first + p.stride_h : p.height;
    for (at.row = first; at.row < end; ++at.row) {
      auto sum = Floats<lanes>::all(0);
      Spot<Index> out = at;
      for_each_window(p, at.row, at.column, [&](Index row, Index column) {
        out.row = row;
        out.column = column;
        const auto from = out.in(p.y);
        const auto places = *aligned_cast<const Places<lanes>>(indices + from);
        const auto gradient = load<lanes>(dy + from);
        const int mine = place_in_window(p, row, column, at.row, at.column);
        for (int lane = 0; lane < lanes; ++lane) {
          if (places.at[lane] == mine) sum.at[lane] += gradient.at[lane];
        }
      });
      store(dx + at.in(p.x), sum);
    }
  }
};

}  // namespace

void choose_layouts(Cuda, const MaxPool2dWithIndices&, KernelIo& io) {
  using Op = MaxPool2dWithIndices;
  choose_gpu_pool_layouts(io.inputs[Op::x], io.outputs[Op::y]);
  choose_indexed_layouts(io);
}

void choose_layouts(Cuda, const MaxPool2dWithIndicesBackward&, KernelIo& io) {
  choose_indexed_gradient_layouts(io);
}

KernelPtr prepare(Cuda, const MaxPool2dWithIndices& op, const KernelIo& io) {
  using Op = MaxPool2dWithIndices;
  require_same_layout(io.outputs[Op::y], io.outputs[Op::indices]);
  return with_element(io.inputs[Op::x].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, Element*, std::uint8_t*>(io, IndexedForward{op.relu_mask}, op.geometry,
                                                                io.inputs[Op::x], io.outputs[Op::y]);
  });
}

KernelPtr prepare(Cuda, const MaxPool2dWithIndicesBackward& op, const KernelIo& io) {
  using Op = MaxPool2dWithIndicesBackward;
  require_same_layout(io.inputs[Op::dy], io.inputs[Op::indices]);
  return with_element(io.outputs[Op::dx].dtype, [&]<class Element>(Element*) {
    return pool_kernel<const Element*, const std::uint8_t*, Element*>(io, IndexedBackward{}, op.geometry,
                                                                      io.outputs[Op::dx], io.inputs[Op::dy]);
  });
}

}  // namespace lockstep::kernels
