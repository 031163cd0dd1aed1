#pragma once

#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/pool_walk.h"
#include "kernels/layout.h"

/// A pool's launch: an item for each element of y or of x, of four channels side by side, or eight of a half
/// type, where layouts allow.
namespace lockstep::kernels {

/// Rows that an op of x takes at a time: one, or where it says `in_strips`, as many as windows move on by.
template <class Op, class Index>
LOCKSTEP_INLINE Index rows_of_items(Index stride, Index height, Index out_height) {
  if constexpr (!Op::over_input) {
    return out_height;
  } else if constexpr (requires { typename Op::in_strips; }) {
    return (height + stride - 1) / stride;
  } else {
    return height;
  }
}

template <class Op, int lanes, class Index, class... Pointers>
__global__ void pool(Op op, Pool<Index> p, std::int64_t items, Pointers... pointers) {
  const Index height = rows_of_items<Op>(p.stride_h, p.height, p.out_height);
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
KernelPtr pool_kernel(const KernelIo& io, const Op& op, const Pool<Index>& p, std::int64_t items,
                      std::index_sequence<argument...>) {
  return cuda_kernel(io, [=, s = spread(items)](const Addresses& a, cudaStream_t stream) {
    launch(pool<Op, lanes, Index, Pointers...>, s.blocks, s.threads, 0, stream, op, p, items,
           static_cast<Pointers>(a.all()[argument])...);
  });
}

/// Whether so many channels lie side by side everywhere.
inline bool has_packs(const PoolPlanes& planes, std::int64_t lanes) {
  bool all = planes.x.lanes % lanes == 0;
  for (const Planes& p : {planes.x, planes.y}) {
    for (const std::int64_t stride : {p.image, p.group, p.row, p.pixel}) all = all && stride % lanes == 0;
  }
  return all;
}

/// `Pointers`: the types of the kernel's inputs, of which the first is of the pool's elements, then outputs.
template <class... Pointers, class Op>
KernelPtr pool_kernel(const KernelIo& io, const Op& op, const Pool2dGeometry& g, const TensorDesc& x,
                      const TensorDesc& y) {
  const PoolPlanes planes = pool_planes(x, y);
  const Shape& shape = Op::over_input ? x.shape : y.shape;
  const std::int64_t rows = rows_of_items<Op>(g.stride[0], x.shape[2], y.shape[2]);
  const std::int64_t items = shape[0] * planes.x.groups * planes.x.lanes * rows * shape[3];
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool narrow = x.layout_or_row_major().span() <= most && y.layout_or_row_major().span() <= most;
  constexpr auto arguments = std::index_sequence_for<Pointers...>();
  using Element =
      std::remove_const_t<std::remove_pointer_t<std::tuple_element_t<0, std::tuple<Pointers...>>>>;
  constexpr int widest = pack_lanes<Element>;
  const auto make = [&]<class Index>(const Pool<Index>& p) {
    if (has_packs(planes, widest))
      return pool_kernel<Op, widest, Index, Pointers...>(io, op, p, items / widest, arguments);
    if (widest != 4 && has_packs(planes, 4))
      return pool_kernel<Op, 4, Index, Pointers...>(io, op, p, items / 4, arguments);
    return pool_kernel<Op, 1, Index, Pointers...>(io, op, p, items, arguments);
  };
  return narrow ? make(narrowed<std::int32_t>(g, planes, x.shape, y.shape))
                : make(narrowed<std::int64_t>(g, planes, x.shape, y.shape));
}

/// A pool keeps the layout that it finds; where it finds none, the GPU's.
inline void choose_gpu_pool_layouts(TensorDesc& x, TensorDesc& y) {
  if (!x.layout && !y.layout) x.layout = channels_last(x.shape);
  choose_pool_layouts(x, y);
}

}  // namespace lockstep::kernels
