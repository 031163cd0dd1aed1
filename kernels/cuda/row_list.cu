#include "kernels/row_list.h"

#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/token_runs.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

/// Pairs of dy and tokens, whose tokens are counted through.
struct Pairs {
  const float* dy[EmbeddingRows::most_pairs];
  const std::int64_t* tokens[EmbeddingRows::most_pairs];
  std::int64_t ends[EmbeddingRows::most_pairs];  ///< past the last token of each; of what is no pair, of all

  __device__ std::int64_t operator()(std::int64_t n) const { return *in_pair(tokens, n, 1); }
  __device__ const float* operator()(std::int64_t n, std::int64_t dim) const { return in_pair(dy, n, dim); }

 private:
  /// Where the n-th of all tokens has its `each` numbers.
  template <class Number>
  __device__ const Number* in_pair(const Number* const (&all)[EmbeddingRows::most_pairs], std::int64_t n,
                                   std::int64_t each) const {
    const Number* from = all[0];
    std::int64_t begin = 0;
    LOCKSTEP_UNROLL
    for (std::size_t pair = 1; pair < EmbeddingRows::most_pairs; ++pair) {
      if (n < ends[pair - 1]) continue;
      from = all[pair];
      begin = ends[pair - 1];
    }
    return from + (n - begin) * each;
  }
};

/// A list but for its rows' values, and what its header says of it.
struct ListHead {
  std::byte* list;
  std::int64_t values_at, row_bytes;

  __device__ void set_rows(std::int64_t rows) const {
    *aligned_cast<RowListHeader>(list) = {values_at + rows * row_bytes, rows};
  }
  __device__ std::int32_t* numbers() const {
    return aligned_cast<std::int32_t>(list + RowListShape::numbers_at());
  }
};

/// A run's row lies behind those of the runs before it: by the place in the order where it begins.
template <class Element>
struct ListedRows {
  static constexpr bool adds = false;
  const std::int32_t* places;
  Element* values;
  __device__ Element* row(std::int64_t begin, std::int64_t, std::int64_t dim) const {
    return values + places[begin] * dim;
  }
};

/// Runs that begin in a block's part of the order.
__global__ void count_runs(std::int64_t tokens, const TokenKey* sorted, std::int32_t* runs) {
  const std::int64_t at = first_item();
  const int count = __syncthreads_count(at < tokens && begins_run(sorted, at));
  if (threadIdx.x == 0) runs[blockIdx.x] = count;
}

/// A run's number is how many begin before it: in the parts of other blocks, in those of other warps, in its
/// warp's.
__global__ void number_runs(std::int64_t tokens, const TokenKey* sorted, const std::int32_t* runs,
                            std::int32_t* places, ListHead to) {
  STATIC_SHARED(int, of_warps, block / warp);
  const std::int64_t at = first_item();
  const auto thread = static_cast<int>(threadIdx.x);
  const bool begins = at < tokens && begins_run(sorted, at);
  const unsigned in_warp = __ballot_sync(whole_warp, begins);
  if (thread % warp == 0) of_warps[thread / warp] = __popc(in_warp);
  int in_parts = 0;
  for (unsigned part = threadIdx.x; part < blockIdx.x; part += block) in_parts += runs[part];
  int place = sum<block>(in_parts);
  for (int other = 0; other < thread / warp; ++other) place += of_warps[other];
  place += __popc(in_warp & ((1U << thread % warp) - 1));
  if (begins) {
    to.numbers()[place] = static_cast<std::int32_t>(token_of(sorted[at]));
    places[at] = place;
  }
  if (blockIdx.x == gridDim.x - 1 && thread == block - 1) to.set_rows(place + (begins ? 1 : 0));
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

/// `make.operator()<Element, lanes>()`.
template <class Make>
KernelPtr for_rows(DType dtype, std::int64_t dim, Make make) {
  return with_element(dtype, [&]<class Element>(Element*) {
    return dim % 4 == 0 ? make.template operator()<Element, 4>() : make.template operator()<Element, 1>();
  });
}

}  // namespace

KernelPtr prepare(Cuda, const EmbeddingRows& op, const KernelIo& io) {
  const RowListShape shape = op.shape(io.inputs[0].type());
  Pairs sizes{};
  const std::size_t pairs = io.inputs.size() / 2;
  std::int64_t tokens = 0;
  for (std::size_t pair = 0; pair < EmbeddingRows::most_pairs; ++pair) {
    if (pair < pairs) tokens += io.inputs[EmbeddingRows::tokens_of(pair)].shape.elements();
    sizes.ends[pair] = tokens;
  }
  if (tokens == 0 || tokens > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("embedding_rows: from 1 to 2147483647 tokens in a batch on a GPU");
  }
  require_slices(EmbeddingRows::name, shape.dim);
  const TokenSort sort(tokens);
  const unsigned parts = blocks_for(tokens, block);
  return for_rows(op.dtype, shape.dim, [&]<class Element, int lanes>() {
    return cuda_kernel(
        io,
        [=](const Addresses& a, cudaStream_t stream) {
          Pairs at = sizes;
          for (std::size_t pair = 0; pair < pairs; ++pair) {
            at.dy[pair] = a.in(EmbeddingRows::dy_of(pair));
            at.tokens[pair] = a.in<std::int64_t>(EmbeddingRows::tokens_of(pair));
          }
          auto* const list = a.out<std::byte>(EmbeddingRows::list);
          auto* const keys = a.workspace<std::byte>();
          auto* const runs = reinterpret_cast<std::int32_t*>(keys + sort.workspace_bytes());
          std::int32_t* const places = runs + parts;
          const TokenKey* const sorted =
              sort.launch_on(stream, at, op.vocab, reinterpret_cast<TokenKey*>(keys));
          launch(count_runs, parts, block, 0, stream, tokens, sorted, runs);
          launch(number_runs, parts, block, 0, stream, tokens, sorted, static_cast<const std::int32_t*>(runs),
                 places,
                 ListHead{list, static_cast<std::int64_t>(shape.values_at()),
                          static_cast<std::int64_t>(shape.row_bytes())});
          add_runs<lanes>(stream, at, tokens, shape.dim, sorted,
                          ListedRows<Element>{places, reinterpret_cast<Element*>(list + shape.values_at())});
        },
        sort.workspace_bytes() + (parts + static_cast<std::size_t>(tokens)) * sizeof(std::int32_t));
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
