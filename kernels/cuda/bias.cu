#include "kernels/cuda/portability.h"

#include "kernels/cuda/bias.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/chunk_sums.h"
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

constexpr int sum_block = 256;
constexpr int most_depth = 32;  // threads to a column

/// sums[chunk][columns]: blockIdx.x names the columns, `lanes` to each thread of a row, blockIdx.y the rows.
/// `adds`: to what is there.
template <int lanes, class Element, class Sum>
__global__ void __launch_bounds__(sum_block, 4)
    sum_rows(BiasGradient::Rows rows, std::int64_t chunk, bool adds, const Element* dy, Sum* sums) {
  STATIC_SHARED(Floats<lanes>, parts, sum_block);
  const auto depth = static_cast<int>(blockDim.y);
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * lanes;
  const std::int64_t begin = blockIdx.y * chunk;
  const std::int64_t all = rows.outer * rows.inner;
  const std::int64_t end = begin + chunk < all ? begin + chunk : all;
  auto total = Floats<lanes>::all(0);
  if (column < rows.columns) {
    const Element* const from = dy + column * rows.column_stride;
    if (rows.outer == 1) {
      for (std::int64_t row = begin + threadIdx.y; row < end; row += depth)
        add_to(total, load<lanes>(from + row * rows.inner_stride));
    } else {
      for (std::int64_t row = begin + threadIdx.y; row < end; row += depth) {
        const std::int64_t outer = row / rows.inner;
        const std::int64_t inner = row - outer * rows.inner;
        add_to(total, load<lanes>(from + outer * rows.outer_stride + inner * rows.inner_stride));
      }
    }
  }
  parts[threadIdx.y * blockDim.x + threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= rows.columns) return;
  for (int other = 1; other < depth; ++other) add_to(total, parts[other * blockDim.x + threadIdx.x]);
  Sum* const to = sums + blockIdx.y * rows.columns + column;
  if (adds) add_to(total, load<lanes>(to));
  store(to, total);
}

/// db[column] = the chunks' sums, or that added to what is there.
template <class Element>
__global__ void sum_chunks(std::int64_t columns, std::int64_t chunks, bool adds, const float* sums,
                           Element* db) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * chunk_columns + threadIdx.x;
  const float total = sum_of_chunks(columns, chunks, sums, column);
  if (threadIdx.y != 0 || column >= columns) return;
  db[column] = narrow<Element>(adds ? total + widen(db[column]) : total);
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
  const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(dtype_));
  const auto in_packs = [pack](std::int64_t extent) { return extent % pack == 0; };
  const bool packs = rows_.column_stride == 1 && in_packs(rows_.columns) && in_packs(rows_.inner_stride) &&
                     in_packs(rows_.outer_stride);
  lanes_ = packs ? pack : 1;
  const auto columns = static_cast<std::uint64_t>(std::max<std::int64_t>(1, rows_.columns / lanes_));
  width_ = static_cast<unsigned>(std::min<std::uint64_t>(warp, std::bit_ceil(columns)));
  depth_ = std::min<unsigned>(most_depth, sum_block / width_);
  // Enough blocks for a great GPU, and in each as many rows as it takes no longer for than a launch more.
  constexpr std::int64_t blocks = 1024;
  constexpr std::int64_t turns = 16;
  const std::int64_t rows = std::max<std::int64_t>(1, rows_.outer * rows_.inner);
  const std::int64_t wanted = std::max<std::int64_t>(1, blocks / blocks_for(rows_.columns, lanes_ * width_));
  chunk_ = std::max<std::int64_t>(turns * depth_, parts_of(rows, wanted));
  chunks_ = parts_of(rows, chunk_);
}

std::size_t BiasGradient::workspace_bytes() const {
  return chunks_ == 1 ? 0 : static_cast<std::size_t>(chunks_ * rows_.columns) * sizeof(float);
}

void BiasGradient::launch(const void* dy, void* db, void* workspace, cudaStream_t stream, bool adds) const {
  if (rows_.columns == 0) return;
  const dim3 blocks(blocks_for(rows_.columns, lanes_ * width_), static_cast<unsigned>(chunks_));
  const auto sum_into = [&]<class Sum>(Sum* sums, bool adds_to_it) {
    with_element(dtype_, [&]<class Element>(Element*) {
      const auto start = [&]<int lanes>() {
        kernels::launch(sum_rows<lanes, Element, Sum>, blocks, dim3(width_, depth_), 0, stream, rows_, chunk_,
                        adds_to_it, static_cast<const Element*>(dy), sums);
      };
      lanes_ == 1 ? start.template operator()<1>() : start.template operator()<pack_lanes<Element>>();
    });
  };
  with_element(gradient_, [&]<class Element>(Element*) {
    auto* const to = static_cast<Element*>(db);
    if (chunks_ == 1) return sum_into(to, adds);
    auto* const sums = static_cast<float*>(workspace);
    sum_into(sums, false);
    kernels::launch(sum_chunks<Element>, blocks_for(rows_.columns, chunk_columns),
                    dim3(chunk_columns, chunk_depth), 0, stream, rows_.columns, chunks_, adds,
                    static_cast<const float*>(sums), to);
  });
}

}  // namespace lockstep::kernels
