#include "kernels/cached_attention.h"

#include "kernels/cuda/portability.h"

#include <string>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

constexpr int warps = 8;
constexpr std::int64_t greatest_head = 256;

struct CacheShape {
  std::int64_t tokens, heads, head_size, capacity;
};

__global__ void append(CacheShape shape, std::int64_t items, const float* x, const std::int64_t* positions,
                       float* cache) {
  const std::int64_t columns = shape.heads * shape.head_size;
  for (std::int64_t item = first_item(); item < items; item += item_stride()) {
    const std::int64_t token = item / columns;
    const std::int64_t column = item % columns;
    const std::int64_t position = positions[token];
    if (position < 0 || position >= shape.capacity) continue;
    const std::int64_t of_head = token / shape.tokens * shape.heads + column / shape.head_size;
    cache[(of_head * shape.capacity + position) * shape.head_size + column % shape.head_size] = x[item];
  }
}

/// A warp for each row.
__global__ void positions_of(std::int64_t length, std::int64_t queries, const std::int64_t* tokens,
                             std::int64_t* positions, std::int64_t* last) {
  const std::int64_t row = blockIdx.x;
  float greatest = -1;  // exact up to 2^24, more than a row has
  for (std::int64_t at = threadIdx.x; at < length; at += warp) {
    const std::int64_t position = tokens[row * length + at] < 0 ? -1 : at;
    positions[row * length + at] = position;
    greatest = fmaxf(greatest, static_cast<float>(position));
  }
  greatest = reduce<warp>(greatest, [](float a, float b) { return fmaxf(a, b); });
  for (std::int64_t query = threadIdx.x; query < queries; query += warp) {
    last[row * queries + query] = static_cast<std::int64_t>(greatest);
  }
}

/// What one warp has seen of a query's entries: softmax as it goes.
template <int lanes>
struct Partial {
  float greatest = -INFINITY;
  float total = 0;
  float y[lanes] = {};

  __device__ void scale_to(float other) {
    const float shrink = greatest == other ? 1.0F : expf(greatest - other);
    total *= shrink;
    for (int i = 0; i < lanes; ++i) y[i] *= shrink;
    greatest = other;
  }
};

/// A block for each query of a head; its warps take every eighth entry each, and a thread `lanes` columns of
/// the head, 32 apart. The warps' parts are joined in their order.
template <int lanes>
__global__ void attend(CacheShape shape, float scale, const float* q, const std::int64_t* last,
                       const float* keys, const float* values, const std::int64_t* rows, float* y) {
  STATIC_SHARED(float, greatest_of, warps);
  STATIC_SHARED(float, total_of, warps);
  STATIC_SHARED(float, y_of, warps* lanes* warp);
  const std::int64_t of_head = blockIdx.x / shape.tokens;
  const std::int64_t token = of_head / shape.heads * shape.tokens + blockIdx.x % shape.tokens;
  const std::int64_t size = shape.head_size;
  const std::int64_t element = (token * shape.heads + of_head % shape.heads) * size;
  const std::int64_t row = of_head / shape.heads;
  const std::int64_t in_head = shape.capacity * size;
  const std::int64_t known = last[token] + 1;
  const std::int64_t entries = known < shape.capacity ? known : shape.capacity;
  const int lane = static_cast<int>(threadIdx.x % warp);
  const int of_warp = static_cast<int>(threadIdx.x / warp);
  float query[lanes];
  for (int i = 0; i < lanes; ++i) {
    const std::int64_t column = i * warp + lane;
    query[i] = column < size ? q[element + column] * scale : 0.0F;
  }
  Partial<lanes> mine;
  for (std::int64_t entry = of_warp; entry < entries; entry += warps) {
    const std::int64_t of_row = rows == nullptr ? row : rows[row * shape.capacity + entry];
    const std::int64_t at = (of_row * shape.heads + of_head % shape.heads) * in_head + entry * size + lane;
    float score = 0;
    for (int i = 0; i < lanes; ++i) {
      if (i * warp + lane < size) score += query[i] * keys[at + i * warp];
    }
    score = sum<warp>(score);
    if (score > mine.greatest) mine.scale_to(score);
    const float factor = expf(score - mine.greatest);
    mine.total += factor;
    for (int i = 0; i < lanes; ++i) {
      if (i * warp + lane < size) mine.y[i] += factor * values[at + i * warp];
    }
  }
  if (lane == 0) greatest_of[of_warp] = mine.greatest;
  if (lane == 0) total_of[of_warp] = mine.total;
  for (int i = 0; i < lanes; ++i) y_of[(of_warp * lanes + i) * warp + lane] = mine.y[i];
  __syncthreads();
  if (of_warp != 0) return;
  for (int other = 1; other < warps; ++other) {
    if (total_of[other] == 0) continue;
    Partial<lanes> its;
    its.greatest = greatest_of[other];
    its.total = total_of[other];
    for (int i = 0; i < lanes; ++i) its.y[i] = y_of[(other * lanes + i) * warp + lane];
    const float both = its.greatest > mine.greatest ? its.greatest : mine.greatest;
    mine.scale_to(both);
    its.scale_to(both);
    mine.total += its.total;
    for (int i = 0; i < lanes; ++i) mine.y[i] += its.y[i];
  }
  for (int i = 0; i < lanes; ++i) {
    const std::int64_t column = i * warp + lane;
    if (column < size) y[element + column] = entries > 0 ? mine.y[i] / mine.total : 0.0F;
  }
}

}  // namespace

KernelPtr prepare(Cuda, const CacheAppend& op, const KernelIo& io) {
  const Shape& x = io.inputs[CacheAppend::x].shape;
  const CacheShape shape{x[1], op.heads, x[2] / op.heads, op.capacity};
  return cuda_kernel(
      io, [shape, items = x.elements(), s = spread(x.elements())](const Addresses& a, cudaStream_t stream) {
        launch(append, s.blocks, s.threads, 0, stream, shape, items, a.in(CacheAppend::x),
               a.in<std::int64_t>(CacheAppend::positions), a.out(CacheAppend::cache));
      });
}

KernelPtr prepare(Cuda, const SourcePositions& op, const KernelIo& io) {
  using Op = SourcePositions;
  const Shape& tokens = io.inputs[Op::tokens].shape;
  return cuda_kernel(io, [queries = op.queries, rows = tokens[0], length = tokens[1]](const Addresses& a,
                                                                                      cudaStream_t stream) {
    launch(positions_of, static_cast<unsigned>(rows), warp, 0, stream, length, queries,
           a.in<std::int64_t>(Op::tokens), a.out<std::int64_t>(Op::positions), a.out<std::int64_t>(Op::last));
  });
}

KernelPtr prepare(Cuda, const CachedAttention& op, const KernelIo& io) {
  using Op = CachedAttention;
  const Shape& q = io.inputs[Op::q].shape;
  const Shape& cache = io.inputs[Op::keys].shape;
  const CacheShape shape{q[1], cache[1], cache[3], cache[2]};
  const auto make = [&]<int lanes>() {
    return cuda_kernel(io, [shape, scale = static_cast<float>(op.scale), blocks = q[0] * q[1] * cache[1]](
                               const Addresses& a, cudaStream_t stream) {
      launch(attend<lanes>, static_cast<unsigned>(blocks), warps * warp, 0, stream, shape, scale, a.in(Op::q),
             a.in<std::int64_t>(Op::last), a.in(Op::keys), a.in(Op::values), a.in<std::int64_t>(Op::rows),
             a.out(Op::y));
    });
  };
  if (shape.head_size > greatest_head) {
    throw_misfit("heads of " + std::to_string(shape.head_size) +
                 " are wider than 256, which is the most on a GPU");
  }
  if (shape.head_size <= 64) return make.template operator()<2>();
  if (shape.head_size <= 128) return make.template operator()<4>();
  return make.template operator()<8>();
}

}  // namespace lockstep::kernels
