#include "kernels/embedding.h"

#include "kernels/cuda/portability.h"

#include <bit>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"

namespace lockstep::kernels {
namespace {

using Key = std::uint64_t;

constexpr int block = 256;
constexpr std::int64_t tile = 2 * block;  // keys that a block sorts by itself

/// A token and its place in the batch: in the order of these numbers lie runs of equal tokens, each in the
/// order of the batch. What is no row of the table comes last.
constexpr Key no_row = ~Key{0};

__device__ Key key_of(std::int64_t token, std::int64_t vocab, std::int64_t place) {
  return token >= 0 && token < vocab ? static_cast<Key>(token) << 32 | static_cast<Key>(place) : no_row;
}

__device__ std::int64_t token_of(Key key) {
  return static_cast<std::int64_t>(key >> 32);
}

template <int lanes>
__global__ void look_up(EmbeddingSize size, const std::int64_t* tokens, const float* weight, float* y) {
  const std::int64_t in_row = size.dim / lanes;
  for (std::int64_t item = first_item(); item < size.tokens * in_row; item += item_stride()) {
    const std::int64_t n = item / in_row;
    const std::int64_t k = (item - n * in_row) * lanes;
    const std::int64_t token = tokens[n];
    const bool is_row = token >= 0 && token < size.vocab;
    const float other = token == padding_token ? 0 : NAN;
    store(y + n * size.dim + k,
          is_row ? load<lanes>(weight + token * size.dim + k) : Floats<lanes>::all(other));
  }
}

__device__ void order(Key& low, Key& high, bool ascending) {
  if ((low > high) != ascending) return;
  const Key kept = low;
  low = high;
  high = kept;
}

/// Bitonic sort (Batcher 1968): the network's steps of all stages within a tile, or of one greater stage
/// those that stay within it. `stage`: the length of the sequences that are sorted behind it.
__device__ void sort_in_tile(Key* keys, std::int64_t first, std::int64_t stage, std::int64_t distance) {
  for (; distance > 0; distance /= 2) {
    __syncthreads();
    const std::int64_t low = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
    order(keys[low], keys[low + distance], ((first + low) & stage) == 0);
  }
}

__global__ void sort_tiles(EmbeddingSize size, const std::int64_t* tokens, Key* sorted) {
  STATIC_SHARED(Key, keys, tile);
  const std::int64_t first = blockIdx.x * tile;
  for (std::int64_t i = threadIdx.x; i < tile; i += block) {
    const std::int64_t n = first + i;
    keys[i] = n < size.tokens ? key_of(tokens[n], size.vocab, n) : no_row;
  }
  for (std::int64_t stage = 2; stage <= tile; stage *= 2) sort_in_tile(keys, first, stage, stage / 2);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < tile; i += block) sorted[first + i] = keys[i];
}

__global__ void order_apart(std::int64_t stage, std::int64_t distance, Key* sorted) {
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * block + threadIdx.x;
  const std::int64_t low = pair / distance * 2 * distance + pair % distance;
  order(sorted[low], sorted[low + distance], (low & stage) == 0);
}

__global__ void finish_stage(std::int64_t stage, Key* sorted) {
  STATIC_SHARED(Key, keys, tile);
  const std::int64_t first = blockIdx.x * tile;
  for (std::int64_t i = threadIdx.x; i < tile; i += block) keys[i] = sorted[first + i];
  sort_in_tile(keys, first, stage, tile / 2);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < tile; i += block) sorted[first + i] = keys[i];
}

/// Where the runs are added: `sum` may be null.
__global__ void begin_sum(std::int64_t n, const float* sum, float* y) {
  for (std::int64_t i = first_item(); i < n; i += item_stride()) y[i] = sum == nullptr ? 0 : sum[i];
}

/// blockIdx.x names the place of a run's first key, blockIdx.y the columns. A thread adds a column of the
/// run.
template <int lanes>
__global__ void add_runs(EmbeddingSize size, const Key* sorted, const float* dy, float* dweight) {
  const Key first = sorted[blockIdx.x];
  if (first == no_row) return;
  const std::int64_t token = token_of(first);
  if (blockIdx.x > 0 && token_of(sorted[blockIdx.x - 1]) == token) return;
  const std::int64_t k = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes;
  if (k >= size.dim) return;
  auto total = Floats<lanes>::all(0);
  for (std::int64_t at = blockIdx.x; at < size.tokens; ++at) {
    const Key key = sorted[at];
    if (token_of(key) != token) break;
    const auto row = load<lanes>(dy + static_cast<std::int64_t>(key & 0xFFFFFFFFU) * size.dim + k);
    for (int lane = 0; lane < lanes; ++lane) total.at[lane] += row.at[lane];
  }
  float* const to = dweight + token * size.dim + k;
  const auto known = load<lanes>(to);
  for (int lane = 0; lane < lanes; ++lane) total.at[lane] += known.at[lane];
  store(to, total);
}

void sort(const EmbeddingSize& size, std::int64_t padded, const std::int64_t* tokens, Key* sorted,
          cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(padded / tile);
  launch(sort_tiles, blocks, block, 0, stream, size, tokens, sorted);
  for (std::int64_t stage = 2 * tile; stage <= padded; stage *= 2) {
    for (std::int64_t distance = stage / 2; distance >= tile; distance /= 2) {
      launch(order_apart, blocks, block, 0, stream, stage, distance, sorted);
    }
    launch(finish_stage, blocks, block, 0, stream, stage, sorted);
  }
}

/// `make.operator()<lanes>()`.
template <class Make>
KernelPtr for_rows(const EmbeddingSize& size, Make make) {
  return size.dim % 4 == 0 ? make.template operator()<4>() : make.template operator()<1>();
}

}  // namespace

KernelPtr prepare(Cuda, const Embedding&, const KernelIo& io) {
  using Op = Embedding;
  const EmbeddingSize size(io.inputs[Op::tokens], io.inputs[Op::weight]);
  return for_rows(size, [&]<int lanes>() {
    const Spread s = spread(size.tokens * size.dim / lanes);
    return cuda_kernel(io, [=](const Addresses& a, cudaStream_t stream) {
      launch(look_up<lanes>, s.blocks, s.threads, 0, stream, size, a.in<std::int64_t>(Op::tokens),
             a.in(Op::weight), a.out(Op::y));
    });
  });
}

KernelPtr prepare(Cuda, const EmbeddingBackward&, const KernelIo& io) {
  using Op = EmbeddingBackward;
  const EmbeddingSize size(io.inputs[Op::tokens], io.outputs[Op::dweight]);
  const auto padded = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(size.tokens, tile))));
  return for_rows(size, [&]<int lanes>() {
    const std::int64_t numbers = size.vocab * size.dim;
    const std::int64_t columns = (size.dim + lanes - 1) / lanes;
    const auto threads = static_cast<unsigned>(std::min<std::int64_t>(block, (columns + 31) / 32 * 32));
    const auto parts = static_cast<unsigned>((columns + threads - 1) / threads);
    return cuda_kernel(
        io,
        [=, s = spread(numbers)](const Addresses& a, cudaStream_t stream) {
          const float* const sum = a.in(Op::sum);
          float* const dweight = a.out(Op::dweight);
          if (sum != dweight) launch(begin_sum, s.blocks, s.threads, 0, stream, numbers, sum, dweight);
          if (size.tokens == 0) return;
          sort(size, padded, a.in<std::int64_t>(Op::tokens), a.workspace<Key>(), stream);
          launch(add_runs<lanes>, dim3(static_cast<unsigned>(size.tokens), parts), threads, 0, stream, size,
                 a.workspace<const Key>(), a.in(Op::dy), dweight);
        },
        static_cast<std::size_t>(padded) * sizeof(Key));
  });
}

}  // namespace lockstep::kernels
