#include "kernels/reorder.h"

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/reorder_strided.h"

namespace lockstep::kernels {
namespace {

constexpr int most_dims = 6;
constexpr int most_axes = 10;

/// One loop over memory: `extent` steps, `stride` elements apart, each worth `unit` indices of dimension
/// `dim`.
template <class Index>
struct Axis {
  Index extent, stride, unit, dim;
};

/// A layout as nested loops, its outer array's and those inside the blocks.
template <class Index>
struct Loops {
  Axis<Index> axis[most_axes];
  Index count;
};

template <class Index>
struct Extents {
  Index of[most_dims];
  Index rank;
};

/// y[where element i lies there] = x[where it lies], or zero where y has padding.
template <class Element, class Index>
__global__ void reorder(Loops<Index> in, Loops<Index> out, Extents<Index> shape, std::int64_t items,
                        const Element* x, Element* y) {
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    Index index[most_dims] = {};
    auto rest = static_cast<Index>(item);
    Index to = 0;
    for (Index a = out.count; a-- > 0;) {
      const Axis<Index>& axis = out.axis[a];
      const Index step = rest % axis.extent;
      rest /= axis.extent;
      to += step * axis.stride;
      index[axis.dim] += step * axis.unit;
    }
    bool inside = true;
    for (Index dim = 0; dim < shape.rank; ++dim) inside = inside && index[dim] < shape.of[dim];
    Element value = 0;
    if (inside) {
      Index from = 0;
      for (Index a = 0; a < in.count; ++a) {
        const Axis<Index>& axis = in.axis[a];
        from += index[axis.dim] / axis.unit % axis.extent * axis.stride;
      }
      value = x[from];
    }
    y[to] = value;
  }
}

/// Greatest strides first, so that neighbouring items are neighbours in memory.
template <class Index>
Loops<Index> loops_of(const Layout& layout) {
  const std::size_t rank = layout.padded.rank();
  if (rank > most_dims || rank + layout.blocks.size() > most_axes) {
    throw UsageError("reorder: " + layout.str() + " has too many dimensions or blocks");
  }
  Loops<Index> loops{};
  const auto add = [&](std::int64_t extent, std::int64_t stride, std::int64_t unit, std::size_t dim) {
    loops.axis[loops.count++] = {static_cast<Index>(extent), static_cast<Index>(stride),
                                 static_cast<Index>(unit), static_cast<Index>(dim)};
  };
  std::int64_t stride = 1;
  std::array<std::int64_t, most_dims> unit;
  unit.fill(1);
  for (auto block = layout.blocks.rbegin(); block != layout.blocks.rend(); ++block) {
    const auto dim = static_cast<std::size_t>(block->dim);
    add(block->size, stride, unit[dim], dim);
    stride *= block->size;
    unit[dim] *= block->size;
  }
  for (std::size_t dim = 0; dim < rank; ++dim) {
    add(layout.padded[dim] / unit[dim], layout.strides[dim], unit[dim], dim);
  }
  std::stable_sort(loops.axis, loops.axis + loops.count,
                   [](const auto& a, const auto& b) { return a.stride > b.stride; });
  return loops;
}

template <class Element, class Index>
KernelPtr reorder_kernel(const KernelIo& io, const Shape& shape, const Layout& from, const Layout& to) {
  const Loops<Index> in = loops_of<Index>(from);
  const Loops<Index> out = loops_of<Index>(to);
  Extents<Index> extents{{}, static_cast<Index>(shape.rank())};
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) extents.of[dim] = static_cast<Index>(shape[dim]);
  const std::int64_t items = to.padded.elements();
  return cuda_kernel(io, [=, s = spread(items)](const Addresses& a, cudaStream_t stream) {
    launch(reorder<Element, Index>, s.blocks, s.threads, 0, stream, in, out, extents, items,
           a.in<Element>(Reorder::x), a.out<Element>(Reorder::y));
  });
}

/// A GPU divides long numbers slowly.
template <class Element>
KernelPtr reorder_kernel(const KernelIo& io) {
  const Shape& shape = io.inputs[Reorder::x].shape;
  const Layout from = io.inputs[Reorder::x].layout_or_row_major();
  const Layout to = io.outputs[Reorder::y].layout_or_row_major();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool narrow = std::max({from.span(), to.span(), to.padded.elements()}) <= most;
  return narrow ? reorder_kernel<Element, std::uint32_t>(io, shape, from, to)
                : reorder_kernel<Element, std::uint64_t>(io, shape, from, to);
}

}  // namespace

void choose_layouts(Cuda, const Reorder&, KernelIo& io) {
  keep_layouts(io);
}

KernelPtr prepare(Cuda, const Reorder&, const KernelIo& io) {
  if (KernelPtr strided = strided_reorder_kernel(io)) return strided;
  return with_bits(size_of(io.inputs[Reorder::x].dtype),
                   [&]<class Element>(Element) { return reorder_kernel<Element>(io); });
}

}  // namespace lockstep::kernels
