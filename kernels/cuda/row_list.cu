#include "kernels/row_list.h"

#include "kernels/cuda/portability.h"

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/sorted_tokens.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// Pairs of dy and tokens, whose tokens are counted through.
struct Pairs {
  const float* dy[EmbeddingRows::most_pairs];
  const std::int64_t* tokens[EmbeddingRows::most_pairs];
  std::int64_t ends[EmbeddingRows::most_pairs];  ///< past the last token of each
  std::int64_t dim;

  __device__ std::int64_t begin(int pair) const { return pair == 0 ? 0 : ends[pair - 1]; }
  __device__ int pair_of(std::int64_t n) const {
    int pair = 0;
    while (n >= ends[pair]) ++pair;
    return pair;
  }
  __device__ std::int64_t operator()(std::int64_t n) const {
    const int pair = pair_of(n);
    return tokens[pair][n - begin(pair)];
  }
  __device__ float value(std::int64_t n, std::int64_t k) const {
    const int pair = pair_of(n);
    return dy[pair][(n - begin(pair)) * dim + k];
  }
};

/// Where the list lies, and what it is made of.
struct ListPlace {
  std::byte* list;
  std::int64_t values_at, row_bytes;

  __device__ void set_rows(std::int64_t rows) const {
    *aligned_cast<RowListHeader>(list) = {values_at + rows * row_bytes, rows};
  }
};

__global__ void clear_list(ListPlace to) {
  to.set_rows(0);
}

/// A block for each place in the order of the tokens. Where a run begins, its row goes behind those of the
/// runs before it.
template <class Element>
__global__ void list_rows(Pairs pairs, std::int64_t tokens, const TokenKey* sorted, ListPlace to) {
  const std::int64_t begin = blockIdx.x;
  if (!begins_run(sorted, begin)) return;
  float runs = 0;
  for (std::int64_t at = threadIdx.x; at < begin; at += block) runs += begins_run(sorted, at) ? 1.0F : 0.0F;
  const auto place = static_cast<std::int64_t>(sum<block>(runs));
  const std::int64_t row = token_of(sorted[begin]);
  std::int64_t end = begin + 1;
  while (end < tokens && token_of(sorted[end]) == row) ++end;
  if (threadIdx.x == 0) {
    aligned_cast<std::int32_t>(to.list + RowListShape::numbers_at())[place] = static_cast<std::int32_t>(row);
    const bool is_last = end == tokens || sorted[end] == no_row;
    if (is_last) to.set_rows(place + 1);
  }
  auto* const values = aligned_cast<Element>(to.list + to.values_at + place * to.row_bytes);
  for (std::int64_t k = threadIdx.x; k < pairs.dim; k += block) {
    float total = 0;
    for (std::int64_t at = begin; at < end; ++at) total += pairs.value(place_of(sorted[at]), k);
    values[k] = narrow<Element>(total);
  }
}

template <class Element>
__global__ void clear(std::int64_t n, Element* sum) {
  for (std::int64_t i = first_item(); i < n; i += item_stride()) sum[i] = narrow<Element>(0);
}

/// All ranks' lists.
struct Lists {
  const std::byte* lists;
  std::int64_t stride, values_at, row_bytes, capacity, dim;
  int ranks;

  __device__ std::int64_t rows(int rank) const {
    return aligned_cast<const RowListHeader>(lists + rank * stride)->rows;
  }
  __device__ const std::int32_t* numbers(int rank) const {
    return aligned_cast<const std::int32_t>(lists + rank * stride + RowListShape::numbers_at());
  }
  template <class Element>
  __device__ const Element* row(int rank, std::int64_t place) const {
    return aligned_cast<const Element>(lists + rank * stride + values_at + place * row_bytes);
  }
  /// The place of the row in a list, or -1.
  __device__ std::int64_t find(int rank, std::int32_t row) const {
    const std::int32_t* const all = numbers(rank);
    std::int64_t low = 0;
    std::int64_t high = rows(rank);
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (all[middle] < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < rows(rank) && all[low] == row ? low : -1;
  }
};

constexpr int most_depth = 17;  // up to 2^16 ranks

/// Column `k` of the row, summed over the ranks that have it.
template <class Element>
__device__ float sum_of_row(const Lists& all, std::int32_t row, std::int64_t k) {
  float sums[most_depth];
  bool is_there[most_depth];
  int depth = 0;
  for (int rank = 0; rank < all.ranks; ++rank) {
    const std::int64_t place = all.find(rank, row);
    is_there[depth] = place >= 0;
    sums[depth] = is_there[depth] ? widen(all.row<Element>(rank, place)[k]) : 0;
    ++depth;
    for (int merges = merges_after(rank, all.ranks, depth); merges > 0; --merges) {
      --depth;
      if (!is_there[depth]) continue;
      sums[depth - 1] = is_there[depth - 1] ? sums[depth - 1] + sums[depth] : sums[depth];
      is_there[depth - 1] = true;
    }
  }
  return sums[0];
}

/// blockIdx.x names an entry of a list. It is left to the first list that has the row.
template <class Element>
__global__ void add_rows(Lists all, Element* sum) {
  const auto rank = static_cast<int>(blockIdx.x / all.capacity);
  const std::int64_t place = blockIdx.x % all.capacity;
  if (place >= all.rows(rank)) return;
  const std::int32_t row = all.numbers(rank)[place];
  for (int before = 0; before < rank; ++before) {
    if (all.find(before, row) >= 0) return;
  }
  for (std::int64_t k = threadIdx.x; k < all.dim; k += block) {
    Element& to = sum[row * all.dim + k];
    to = narrow<Element>(widen(to) + sum_of_row<Element>(all, row, k));
  }
}

}  // namespace

KernelPtr prepare(Cuda, const EmbeddingRows& op, const KernelIo& io) {
  const RowListShape shape = op.shape(io.inputs[0].type());
  Pairs sizes{};
  sizes.dim = shape.dim;
  const std::size_t pairs = io.inputs.size() / 2;
  std::int64_t tokens = 0;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    tokens += io.inputs[EmbeddingRows::tokens_of(pair)].shape.elements();
    sizes.ends[pair] = tokens;
  }
  // Runs are counted in f32.
  if (tokens == 0 || tokens > std::int64_t{1} << 24) {
    throw UsageError("embedding_rows: from 1 to 2^24 tokens in a batch on a GPU");
  }
  const TokenSort sort(tokens);
  return with_element(op.dtype, [&]<class Element>(Element*) {
    return cuda_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          Pairs at = sizes;
          for (std::size_t pair = 0; pair < pairs; ++pair) {
            at.dy[pair] = a.in(EmbeddingRows::dy_of(pair));
            at.tokens[pair] = a.in<std::int64_t>(EmbeddingRows::tokens_of(pair));
          }
          const ListPlace to{a.out<std::byte>(EmbeddingRows::list),
                             static_cast<std::int64_t>(shape.values_at()),
                             static_cast<std::int64_t>(shape.row_bytes())};
          auto* const sorted = a.workspace<TokenKey>();
          sort.launch_on(stream, at, op.vocab, sorted);
          launch(clear_list, 1, 1, 0, stream, to);
          launch(list_rows<Element>, static_cast<unsigned>(tokens), block, 0, stream, at, tokens,
                 static_cast<const TokenKey*>(sorted), to);
        },
        sort.workspace_bytes());
  });
}

KernelPtr prepare(Cuda, const AddRows& op, const KernelIo& io) {
  const RowListShape shape = op.shape(io.outputs[AddRows::sum].type());
  const std::int64_t elements = io.outputs[AddRows::sum].shape.elements();
  const std::int64_t ranks = io.inputs[AddRows::lists].shape[0];
  return with_element(shape.dtype, [&]<class Element>(Element*) {
    return cuda_kernel(io, [=, s = spread(elements), overwrites = op.overwrites](const Addresses& a,
                                                                                 cudaStream_t stream) {
      auto* const sum = a.out<Element>(AddRows::sum);
      if (overwrites) launch(clear<Element>, s.blocks, s.threads, 0, stream, elements, sum);
      const Lists all{a.in<std::byte>(AddRows::lists),
                      static_cast<std::int64_t>(shape.bytes()),
                      static_cast<std::int64_t>(shape.values_at()),
                      static_cast<std::int64_t>(shape.row_bytes()),
                      shape.capacity,
                      shape.dim,
                      static_cast<int>(ranks)};
      launch(add_rows<Element>, static_cast<unsigned>(ranks * shape.capacity), block, 0, stream, all, sum);
    });
  });
}

}  // namespace lockstep::kernels
