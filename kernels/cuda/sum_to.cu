#include "kernels/sum_to.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/pointwise.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// x seen as sums of terms: two sets of nested loops, over the elements of y and over what is added to each.
struct SumAxes {
  static constexpr int most = static_cast<int>(PointwiseWalk::most_axes);
  std::int64_t outer_axes, inner_axes;
  std::int64_t outer_extents[most], outer_x[most], outer_y[most];
  std::int64_t inner_extents[most], inner_x[most];
};

/// Where the first term of a sum lies in x, and the sum in y.
struct SumPlace {
  std::int64_t x = 0, y = 0;
};

__device__ SumPlace place_of(const SumAxes& axes, std::int64_t outer_axes, std::int64_t number) {
  SumPlace place;
  for (std::int64_t axis = outer_axes; axis-- > 0; number /= axes.outer_extents[axis]) {
    const std::int64_t index = number % axes.outer_extents[axis];
    place.x += index * axes.outer_x[axis];
    place.y += index * axes.outer_y[axis];
  }
  return place;
}

__device__ std::int64_t term_offset(const SumAxes& axes, std::int64_t term) {
  std::int64_t at = 0;
  for (std::int64_t axis = axes.inner_axes; axis-- > 0; term /= axes.inner_extents[axis]) {
    at += term % axes.inner_extents[axis] * axes.inner_x[axis];
  }
  return at;
}

/// A block for each element of y; the order of its sum depends on the shapes alone.
template <class Element>
__global__ void sum_to(SumAxes axes, std::int64_t terms, const Element* x, Element* y) {
  const SumPlace place = place_of(axes, axes.outer_axes, blockIdx.x);
  float value = 0;
  for (std::int64_t term = threadIdx.x; term < terms; term += block) {
    value += widen(x[place.x + term_offset(axes, term)]);
  }
  value = sum<block>(value);
  if (threadIdx.x == 0) y[place.y] = narrow<Element>(value);
}

constexpr int columns_in_tile = 32;
constexpr int rows_in_tile = block / columns_in_tile;

/// Where elements of y lie side by side in x, as channels of channels-last pictures do: a warp reads a row of
/// them, and the block's warps share the terms out.
template <class Element>
__global__ void sum_columns(SumAxes axes, std::int64_t terms, std::int64_t tiles, const Element* x,
                            Element* y) {
  STATIC_SHARED(float, parts, block);
  const std::int64_t last = axes.outer_axes - 1;
  const SumPlace place = place_of(axes, last, blockIdx.x / tiles);
  const std::int64_t column = blockIdx.x % tiles * columns_in_tile + threadIdx.x % columns_in_tile;
  const bool inside = column < axes.outer_extents[last];
  float value = 0;
  for (std::int64_t term = threadIdx.x / columns_in_tile; inside && term < terms; term += rows_in_tile) {
    value += widen(x[place.x + column + term_offset(axes, term)]);
  }
  parts[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x >= columns_in_tile || !inside) return;
  for (int row = 1; row < rows_in_tile; ++row) value += parts[row * columns_in_tile + threadIdx.x];
  y[place.y + column * axes.outer_y[last]] = narrow<Element>(value);
}

template <class Element>
KernelPtr sum_kernel(const KernelIo& io, const PointwiseWalk& walk) {
  SumAxes axes{};
  std::int64_t sums = 1;
  std::int64_t terms = 1;
  for (std::size_t axis = 0; axis < walk.axes; ++axis) {
    if (walk.in_strides[0][axis] == 0) {
      axes.inner_extents[axes.inner_axes] = walk.extents[axis];
      axes.inner_x[axes.inner_axes++] = walk.out_strides[axis];
      terms *= walk.extents[axis];
    } else {
      axes.outer_extents[axes.outer_axes] = walk.extents[axis];
      axes.outer_y[axes.outer_axes] = walk.in_strides[0][axis];
      axes.outer_x[axes.outer_axes++] = walk.out_strides[axis];
      sums *= walk.extents[axis];
    }
  }
  const std::int64_t last = axes.outer_axes - 1;
  if (last >= 0 && axes.outer_x[last] == 1 && axes.outer_extents[last] >= columns_in_tile / 4) {
    const std::int64_t tiles = parts_of(axes.outer_extents[last], columns_in_tile);
    const auto blocks = static_cast<unsigned>(sums / axes.outer_extents[last] * tiles);
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      launch(sum_columns<Element>, blocks, block, 0, stream, axes, terms, tiles, a.in<Element>(SumTo::x),
             a.out<Element>(SumTo::y));
    });
  }
  return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
    launch(sum_to<Element>, static_cast<unsigned>(sums), block, 0, stream, axes, terms,
           a.in<Element>(SumTo::x), a.out<Element>(SumTo::y));
  });
}

}  // namespace

void choose_layouts(Cuda, const SumTo&, KernelIo& io) {
  choose_sum_layouts(io.inputs[SumTo::x], io.outputs[SumTo::y]);
}

KernelPtr prepare(Cuda, const SumTo&, const KernelIo& io) {
  const PointwiseWalk walk =
      pointwise_walk({.inputs = {io.outputs[SumTo::y]}, .outputs = {io.inputs[SumTo::x]}});
  return with_element(io.inputs[SumTo::x].dtype,
                      [&]<class Element>(Element*) { return sum_kernel<Element>(io, walk); });
}

}  // namespace lockstep::kernels
