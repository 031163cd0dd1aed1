#include "kernels/sum_to.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
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

/// A block for each element of y; the order of its sum depends on the shapes alone.
__global__ void sum_to(SumAxes axes, std::int64_t terms, const float* x, float* y) {
  std::int64_t rest = blockIdx.x;
  std::int64_t from = 0;
  std::int64_t to = 0;
  for (std::int64_t axis = axes.outer_axes; axis-- > 0; rest /= axes.outer_extents[axis]) {
    const std::int64_t index = rest % axes.outer_extents[axis];
    from += index * axes.outer_x[axis];
    to += index * axes.outer_y[axis];
  }
  float value = 0;
  for (std::int64_t term = threadIdx.x; term < terms; term += block) {
    std::int64_t at = from;
    std::int64_t left = term;
    for (std::int64_t axis = axes.inner_axes; axis-- > 0; left /= axes.inner_extents[axis]) {
      at += left % axes.inner_extents[axis] * axes.inner_x[axis];
    }
    value += x[at];
  }
  value = sum<block>(value);
  if (threadIdx.x == 0) y[to] = value;
}

}  // namespace

KernelPtr prepare(Cuda, const SumTo&, const KernelIo& io) {
  const PointwiseWalk walk =
      pointwise_walk({.inputs = {io.outputs[SumTo::y]}, .outputs = {io.inputs[SumTo::x]}});
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
  return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
    launch(sum_to, static_cast<unsigned>(sums), block, 0, stream, axes, terms, a.in(SumTo::x),
           a.out(SumTo::y));
  });
}

}  // namespace lockstep::kernels
