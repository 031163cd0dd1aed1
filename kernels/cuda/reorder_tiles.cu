#include "kernels/cuda/portability.h"

#include <algorithm>

#include "kernels/base/division.h"
#include "kernels/base/fast_division.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/reorder_strided.h"
#include "kernels/reorder.h"

namespace lockstep::kernels {
namespace {

constexpr std::uint32_t edge = 64;   // of a tile, in elements
constexpr std::uint32_t width = 32;  // of a block
constexpr std::uint32_t height = 8;
constexpr std::size_t most_batch_axes = 4;

/// Elements of a row in shared memory: a column's lie in banks of their own.
template <class Element>
constexpr std::uint32_t pitch = edge + std::max<std::uint32_t>(1, 4 / sizeof(Element));

struct TiledAxis {
  FastDivision tiles;
  std::uint32_t inside, extent;
};

/// Tiles of the axes along which y's and x's elements lie side by side, for each index of the others.
struct TiledWalk {
  TiledAxis of_y, of_x;
  std::uint32_t x_stride;  ///< of x along y's axis
  std::uint32_t y_stride;  ///< of y along x's axis
  std::uint32_t batch_axes;
  FastDivision extents[most_batch_axes];
  std::uint32_t inside[most_batch_axes];
  std::uint32_t x_strides[most_batch_axes], y_strides[most_batch_axes];
};

/// A thread's places in a tile.
constexpr std::uint32_t places = edge * edge / (width * height);
__device__ std::uint32_t row_of(std::uint32_t place) {
  return threadIdx.y + place / (edge / width) * height;
}
__device__ std::uint32_t column_of(std::uint32_t place) {
  return threadIdx.x + place % (edge / width) * width;
}

/// A block moves a tile. Neighbouring threads read neighbours in x, and write neighbours in y.
template <class Element>
__global__ void reorder_tiles(TiledWalk walk, const Element* x, Element* y) {
  STATIC_SHARED(Element, tile, edge * pitch<Element>);
  std::uint32_t rest = walk.of_x.tiles.quotient(blockIdx.x);
  const std::uint32_t along_x = (blockIdx.x - rest * walk.of_x.tiles.divisor()) * edge;
  std::uint32_t batch = walk.of_y.tiles.quotient(rest);
  const std::uint32_t along_y = (rest - batch * walk.of_y.tiles.divisor()) * edge;
  std::uint32_t from = 0, to = 0;
  bool inside = true;
  LOCKSTEP_UNROLL
  for (std::uint32_t axis = 0; axis < most_batch_axes; ++axis) {
    if (axis == walk.batch_axes) break;
    rest = walk.extents[axis].quotient(batch);
    const std::uint32_t index = batch - rest * walk.extents[axis].divisor();
    inside = inside && index < walk.inside[axis];
    from += index * walk.x_strides[axis];
    to += index * walk.y_strides[axis];
    batch = rest;
  }
  LOCKSTEP_UNROLL
  for (std::uint32_t place = 0; place < places; ++place) {
    const std::uint32_t row = row_of(place), column = column_of(place);
    const std::uint32_t at_y = along_y + row, at_x = along_x + column;
    const bool is_there = inside && at_y < walk.of_y.inside && at_x < walk.of_x.inside;
    tile[row * pitch<Element> + column] = is_there ? x[from + at_y * walk.x_stride + at_x] : Element{0};
  }
  __syncthreads();
  LOCKSTEP_UNROLL
  for (std::uint32_t place = 0; place < places; ++place) {
    const std::uint32_t row = row_of(place), column = column_of(place);
    const std::uint32_t at_x = along_x + row, at_y = along_y + column;
    if (at_x < walk.of_x.extent && at_y < walk.of_y.extent) {
      y[to + at_x * walk.y_stride + at_y] = tile[column * pitch<Element> + row];
    }
  }
}

std::uint32_t narrow(std::int64_t number) {
  return static_cast<std::uint32_t>(number);
}

TiledAxis tiled(const StridedAxis& axis) {
  return {FastDivision(narrow(parts_of(axis.extent, edge))), narrow(axis.inside), narrow(axis.extent)};
}

}  // namespace

KernelPtr tiled_reorder_kernel(const KernelIo& io, const std::vector<StridedAxis>& axes) {
  constexpr std::int64_t least = 16;  // a shorter one leaves most of each tile empty
  const StridedAxis& of_y = axes[0];
  const auto of_x = std::ranges::find(axes, 1, &StridedAxis::x_stride);
  const bool fits = of_x != axes.end() && of_x != axes.begin() && of_y.y_stride == 1 &&
                    std::min(of_y.inside, of_x->inside) >= least && axes.size() <= 2 + most_batch_axes;
  if (!fits) return nullptr;
  TiledWalk walk{.of_y = tiled(of_y),
                 .of_x = tiled(*of_x),
                 .x_stride = narrow(of_y.x_stride),
                 .y_stride = narrow(of_x->y_stride),
                 .batch_axes = 0};
  std::int64_t blocks = std::int64_t{walk.of_y.tiles.divisor()} * walk.of_x.tiles.divisor();
  for (auto axis = axes.begin() + 1; axis != axes.end(); ++axis) {
    if (axis == of_x) continue;
    const std::uint32_t i = walk.batch_axes++;
    walk.extents[i] = FastDivision(narrow(axis->extent));
    walk.inside[i] = narrow(axis->inside);
    walk.x_strides[i] = narrow(axis->x_stride);
    walk.y_strides[i] = narrow(axis->y_stride);
    blocks *= axis->extent;
  }
  return with_bits(size_of(io.inputs[Reorder::x].dtype), [&]<class Element>(Element) {
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      launch(reorder_tiles<Element>, blocks, dim3(width, height), 0, stream, walk, a.in<Element>(Reorder::x),
             a.out<Element>(Reorder::y));
    });
  });
}

}  // namespace lockstep::kernels
