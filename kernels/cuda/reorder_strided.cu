#include "kernels/cuda/portability.h"

#include "kernels/cuda/reorder_strided.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/base/fast_division.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/reorder.h"

namespace lockstep::kernels {
namespace {

constexpr std::size_t most_axes = 6;

/// y in packs of elements that lie side by side. Axis 0 is y's innermost: its extent is in packs, `inside`
/// and the stride of x in elements.
struct StridedWalk {
  std::uint32_t packs, axes;
  std::uint32_t reads_packs;  ///< whether x's elements of a pack lie side by side too
  FastDivision extents[most_axes];
  std::uint32_t inside[most_axes];  ///< what is behind is padding
  std::uint32_t x_strides[most_axes], y_strides[most_axes];
};

/// Pack `item` of y, and where it lies.
template <class Element, int lanes>
__device__ std::uint32_t gather(const StridedWalk& walk, std::uint32_t item, const Element* x,
                                Pack<Element, lanes>& pack) {
  std::uint32_t from = 0, to = 0, column = 0;
  bool inside = true;
  LOCKSTEP_UNROLL
  for (std::uint32_t axis = 0; axis < most_axes; ++axis) {
    const bool last = axis + 1 >= walk.axes;
    const std::uint32_t outer = last ? 0 : walk.extents[axis].quotient(item);
    std::uint32_t index = item - outer * walk.extents[axis].divisor();
    if (axis == 0) column = index *= lanes;
    inside = inside && index < walk.inside[axis];
    from += index * walk.x_strides[axis];
    to += index * walk.y_strides[axis];
    if (last) break;
    item = outer;
  }
  pack = {};
  if (!inside) return to;
  if (lanes > 1 && walk.reads_packs != 0) {
    pack = *aligned_cast<const Pack<Element, lanes>>(x + from);
    return to;
  }
  LOCKSTEP_UNROLL
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (column + lane < walk.inside[0]) pack.at[lane] = x[from + lane * walk.x_strides[0]];
  }
  return to;
}

/// A thread loads all of its packs before it stores one.
template <class Element, int lanes, int packs_of_a_thread>
__global__ void reorder_strided(StridedWalk walk, const Element* x, Element* y) {
  const std::uint32_t stride = blockDim.x * packs_of_a_thread;
  for (std::uint32_t first = blockIdx.x * stride + threadIdx.x; first < walk.packs;
       first += gridDim.x * stride) {
    Pack<Element, lanes> packs[packs_of_a_thread];
    std::uint32_t to[packs_of_a_thread];
    LOCKSTEP_UNROLL
    for (std::uint32_t i = 0; i < packs_of_a_thread; ++i) {
      const std::uint32_t item = first + i * blockDim.x;
      if (item < walk.packs) to[i] = gather(walk, item, x, packs[i]);
    }
    LOCKSTEP_UNROLL
    for (std::uint32_t i = 0; i < packs_of_a_thread; ++i) {
      if (first + i * blockDim.x < walk.packs) *aligned_cast<Pack<Element, lanes>>(y + to[i]) = packs[i];
    }
  }
}

/// y's innermost axis first. Axes that follow each other without a gap in both are one.
std::vector<StridedAxis> joined_axes(const Shape& shape, const Layout& x, const Layout& y) {
  std::vector<StridedAxis> axes;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    if (y.padded[dim] != 1) axes.push_back({shape[dim], y.padded[dim], x.strides[dim], y.strides[dim]});
  }
  std::ranges::stable_sort(axes, {}, &StridedAxis::y_stride);
  std::vector<StridedAxis> joined;
  for (const StridedAxis& axis : axes) {
    if (!joined.empty()) {
      StridedAxis& inner = joined.back();
      const bool follows = axis.x_stride == inner.x_stride * inner.extent &&
                           axis.y_stride == inner.y_stride * inner.extent && inner.inside == inner.extent;
      if (follows) {
        inner.inside *= axis.inside;
        inner.extent *= axis.extent;
        continue;
      }
    }
    joined.push_back(axis);
  }
  if (joined.empty()) joined.push_back({1, 1, 1, 1});
  return joined;
}

/// Whether y is made of runs of so many elements.
bool fits_packs(const std::vector<StridedAxis>& axes, std::int64_t lanes) {
  return axes[0].y_stride == 1 && axes[0].extent % lanes == 0 &&
         std::all_of(axes.begin() + 1, axes.end(),
                     [&](const StridedAxis& axis) { return axis.y_stride % lanes == 0; });
}

StridedWalk walk_of(const std::vector<StridedAxis>& axes, std::int64_t lanes) {
  const auto narrow = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  StridedWalk walk{.packs = 1, .axes = narrow(static_cast<std::int64_t>(axes.size()))};
  bool reads_packs = axes[0].x_stride == 1 && axes[0].inside % lanes == 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = axes[i].extent / (i == 0 ? lanes : 1);
    walk.packs *= narrow(extent);
    walk.extents[i] = FastDivision(narrow(extent));
    walk.inside[i] = narrow(axes[i].inside);
    walk.x_strides[i] = narrow(axes[i].x_stride);
    walk.y_strides[i] = narrow(axes[i].y_stride);
    reads_packs = reads_packs && (i == 0 || axes[i].x_stride % lanes == 0);
  }
  walk.reads_packs = reads_packs ? 1 : 0;
  return walk;
}

template <class Element, int lanes, int packs_of_a_thread>
KernelPtr kernel_of(const KernelIo& io, const std::vector<StridedAxis>& axes) {
  const StridedWalk walk = walk_of(axes, lanes);
  return cuda_kernel(io, [walk, s = spread(parts_of(std::int64_t{walk.packs}, packs_of_a_thread))](
                             const Addresses& a, cudaStream_t stream) {
    launch(reorder_strided<Element, lanes, packs_of_a_thread>, s.blocks, s.threads, 0, stream, walk,
           a.in<Element>(Reorder::x), a.out<Element>(Reorder::y));
  });
}

template <class Element>
KernelPtr kernel_of(const KernelIo& io, const std::vector<StridedAxis>& axes) {
  constexpr int lanes = 16 / sizeof(Element);
  return fits_packs(axes, lanes) ? kernel_of<Element, lanes, 2>(io, axes)
                                 : kernel_of<Element, 1, 4>(io, axes);
}

}  // namespace

KernelPtr strided_reorder_kernel(const KernelIo& io) {
  const TensorDesc& x = io.inputs[Reorder::x];
  const Layout from = x.layout_or_row_major();
  const Layout to = io.outputs[Reorder::y].layout_or_row_major();
  const std::int64_t items = to.padded.elements();
  const bool fits = std::max({from.span(), to.span(), items}) <= std::numeric_limits<std::int32_t>::max();
  if (!from.blocks.empty() || !to.blocks.empty() || !fits || items == 0) return nullptr;
  const std::vector<StridedAxis> axes = joined_axes(x.shape, from, to);
  if (axes.size() > most_axes) return nullptr;
  if (KernelPtr tiled = tiled_reorder_kernel(io, axes)) return tiled;
  return with_bits(size_of(x.dtype), [&]<class Element>(Element) { return kernel_of<Element>(io, axes); });
}

}  // namespace lockstep::kernels
