#include "kernels/embedding.h"

#include "kernels/cuda/portability.h"

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/sorted_tokens.h"

namespace lockstep::kernels {
namespace {

constexpr int block = 256;

struct TokenArray {
  const std::int64_t* tokens;
  __device__ std::int64_t operator()(std::int64_t n) const { return tokens[n]; }
};

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

/// Where the runs are added, with the rows of zeros behind: `sum`, of which there are `known` numbers, may be
/// null.
__global__ void begin_sum(std::int64_t n, std::int64_t known, const float* sum, float* y) {
  for (std::int64_t i = first_item(); i < n; i += item_stride())
    y[i] = sum == nullptr || i >= known ? 0 : sum[i];
}

/// blockIdx.x names the place of a run's first key, blockIdx.y the columns. A thread adds a column of the
/// run.
template <int lanes>
__global__ void add_runs(EmbeddingSize size, const TokenKey* sorted, const float* dy, float* dweight) {
  if (!begins_run(sorted, blockIdx.x)) return;
  const std::int64_t token = token_of(sorted[blockIdx.x]);
  const std::int64_t k = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes;
  if (k >= size.dim) return;
  auto total = Floats<lanes>::all(0);
  for (std::int64_t at = blockIdx.x; at < size.tokens; ++at) {
    const TokenKey key = sorted[at];
    if (token_of(key) != token) break;
    const auto row = load<lanes>(dy + place_of(key) * size.dim + k);
    for (int lane = 0; lane < lanes; ++lane) total.at[lane] += row.at[lane];
  }
  float* const to = dweight + token * size.dim + k;
  const auto known = load<lanes>(to);
  for (int lane = 0; lane < lanes; ++lane) total.at[lane] += known.at[lane];
  store(to, total);
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
  const TokenSort sort(size.tokens);
  return for_rows(size, [&]<int lanes>() {
    const std::int64_t numbers = size.vocab * size.dim;
    const std::int64_t all = io.outputs[Op::dweight].layout_or_row_major().span();
    const std::int64_t columns = parts_of(size.dim, lanes);
    const auto threads = static_cast<unsigned>(std::min<std::int64_t>(block, rounded_up(columns, warp)));
    const auto parts = blocks_for(columns, threads);
    return cuda_kernel(
        io,
        [=, s = spread(all)](const Addresses& a, cudaStream_t stream) {
          const float* const sum = a.in(Op::sum);
          float* const dweight = a.out(Op::dweight);
          if (sum != dweight) launch(begin_sum, s.blocks, s.threads, 0, stream, all, numbers, sum, dweight);
          if (size.tokens == 0) return;
          sort.launch_on(stream, TokenArray{a.in<std::int64_t>(Op::tokens)}, size.vocab,
                         a.workspace<TokenKey>());
          launch(add_runs<lanes>, dim3(static_cast<unsigned>(size.tokens), parts), threads, 0, stream, size,
                 a.workspace<const TokenKey>(), a.in(Op::dy), dweight);
        },
        sort.workspace_bytes());
  });
}

}  // namespace lockstep::kernels
