#include "kernels/cuda/portability.h"

#include "kernels/cuda/bias.h"

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/op.h"

namespace lockstep::kernels {
namespace {

template <class Element, class Index>
__global__ void bias_relu(const Element* b, Element* y, Index n, Index channels, Index channel_stride,
                          bool relu) {
  for (std::int64_t at = first_item(); at < n; at += item_stride()) {
    const auto i = static_cast<Index>(at);
    float value = widen(y[i]);
    if (b != nullptr) value += widen(b[i / channel_stride % channels]);
    y[i] = narrow<Element>(relu && value < 0 ? 0 : value);  // not value > 0 ? value : 0: a NaN stays
  }
}

constexpr int width = 32;  // columns of a block: a warp reads 128 bytes in one piece
constexpr int depth = 8;   // threads to a column

/// sums[chunk][column]: blockIdx.x names the columns, blockIdx.y the rows.
template <class Element, class Sum>
__global__ void sum_rows(BiasGradient::Rows rows, std::int64_t chunk, const Element* dy, Sum* sums) {
  STATIC_SHARED(float, parts, depth* width);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * width + threadIdx.x;
  const std::int64_t begin = blockIdx.y * chunk;
  const std::int64_t all = rows.outer * rows.inner;
  const std::int64_t end = begin + chunk < all ? begin + chunk : all;
  float sum = 0;
  if (column < rows.columns) {
    const Element* const from = dy + column * rows.column_stride;
    if (rows.outer == 1) {
      for (std::int64_t row = begin + threadIdx.y; row < end; row += depth)
        sum += widen(from[row * rows.inner_stride]);
    } else {
      for (std::int64_t row = begin + threadIdx.y; row < end; row += depth) {
        sum += widen(from[row / rows.inner * rows.outer_stride + row % rows.inner * rows.inner_stride]);
      }
    }
  }
  parts[threadIdx.y * width + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= rows.columns) return;
  for (int other = 1; other < depth; ++other) sum += parts[other * width + threadIdx.x];
  sums[blockIdx.y * rows.columns + column] = narrow<Sum>(sum);
}

/// db[column] = the chunks' sums, in their order.
template <class Element>
__global__ void sum_chunks(std::int64_t columns, std::int64_t chunks, const float* sums, Element* db) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk * columns + column];
  db[column] = narrow<Element>(sum);
}

BiasGradient::Rows rows_of(const TensorDesc& dy) {
  const Layout l = dy.layout_or_row_major();
  const Shape& s = dy.shape;
  if (s.rank() == 2) return {1, s[0], 0, l.strides[0], s[1], l.strides[1]};
  if (l.strides[2] != s[3] * l.strides[3]) {
    throw UsageError("bias_gradient: the rows of dy's pictures have gaps; they must follow each other");
  }
  const std::int64_t pixels = s[2] * s[3];
  if (l.strides[0] == pixels * l.strides[3]) return {1, s[0] * pixels, 0, l.strides[3], s[1], l.strides[1]};
  return {s[0], pixels, l.strides[0], l.strides[3], s[1], l.strides[1]};
}

}  // namespace

BiasRelu::BiasRelu(const TensorDesc& y, bool relu)
    : dtype_(y.dtype),
      elements_(y.shape.elements()),
      channels_(y.shape[1]),
      channel_stride_(y.layout_or_row_major().strides[1]),
      relu_(relu) {}

void BiasRelu::launch(const void* b, void* y, cudaStream_t stream) const {
  const Spread s = spread(elements_);
  with_element(dtype_, [&]<class Element>(Element*) {
    const auto start = [&]<class Index>(Index n) {
      kernels::launch(bias_relu<Element, Index>, s.blocks, s.threads, 0, stream,
                      static_cast<const Element*>(b), static_cast<Element*>(y), n,
                      static_cast<Index>(channels_), static_cast<Index>(channel_stride_), relu_);
    };
    const bool narrow = elements_ <= std::numeric_limits<std::int32_t>::max();
    narrow ? start(static_cast<std::int32_t>(elements_)) : start(elements_);
  });
}

BiasGradient::BiasGradient(const TensorDesc& dy, DType gradient) : dtype_(dy.dtype), gradient_(gradient) {
  require_rank("dy", dy.type(), dy.shape.rank() == 2 ? 2 : 4);
  if (!dy.layout_or_row_major().blocks.empty()) throw_misfit("dy must not have a blocked layout");
  rows_ = rows_of(dy);
  // Enough blocks for a great GPU, and enough rows in each to be worth a block.
  constexpr std::int64_t blocks = 2048;
  constexpr std::int64_t least_rows = 8 * depth;
  const std::int64_t rows = std::max<std::int64_t>(1, rows_.outer * rows_.inner);
  const std::int64_t wanted = std::max<std::int64_t>(1, blocks / blocks_for(rows_.columns, width));
  chunk_ = std::max(least_rows, parts_of(rows, wanted));
  chunks_ = parts_of(rows, chunk_);
}

std::size_t BiasGradient::workspace_bytes() const {
  return chunks_ == 1 ? 0 : static_cast<std::size_t>(chunks_ * rows_.columns) * sizeof(float);
}

void BiasGradient::launch(const void* dy, void* db, void* workspace, cudaStream_t stream) const {
  if (rows_.columns == 0) return;
  const auto sum_into = [&]<class Sum>(Sum* sums) {
    with_element(dtype_, [&]<class Element>(Element*) {
      kernels::launch(sum_rows<Element, Sum>,
                      dim3(blocks_for(rows_.columns, width), static_cast<unsigned>(chunks_)),
                      dim3(width, depth), 0, stream, rows_, chunk_, static_cast<const Element*>(dy), sums);
    });
  };
  with_element(gradient_, [&]<class Element>(Element*) {
    auto* const to = static_cast<Element*>(db);
    if (chunks_ == 1) return sum_into(to);
    auto* const sums = static_cast<float*>(workspace);
    sum_into(sums);
    constexpr unsigned threads = 128;
    kernels::launch(sum_chunks<Element>, blocks_for(rows_.columns, threads), threads, 0, stream,
                    rows_.columns, chunks_, static_cast<const float*>(sums), to);
  });
}

}  // namespace lockstep::kernels
