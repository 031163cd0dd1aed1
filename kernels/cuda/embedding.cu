#include "kernels/embedding.h"

#include "kernels/cuda/portability.h"

#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/token_runs.h"

namespace lockstep::kernels {
namespace {

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
template <int lanes>
__global__ void begin_sum(std::int64_t n, std::int64_t known, const float* sum, float* y) {
  for (std::int64_t i = first_item() * lanes; i < n; i += item_stride() * lanes)
    store(y + i, sum == nullptr || i >= known ? Floats<lanes>::all(0) : load<lanes>(sum + i));
}

/// Rows of dy, and those of the table that they are added to.
struct GradientRows {
  const float* dy;
  __device__ const float* operator()(std::int64_t place, std::int64_t dim) const { return dy + place * dim; }
};
struct TableRows {
  static constexpr bool adds = true;
  float* dweight;
  __device__ float* row(std::int64_t, std::int64_t token, std::int64_t dim) const {
    return dweight + token * dim;
  }
};

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
  if (size.tokens > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("embedding_backward: more than 2147483647 tokens in a batch; take a smaller one");
  }
  require_slices(Op::name, size.dim);
  const TokenSort sort(size.tokens);
  return for_rows(size, [&]<int lanes>() {
    const std::int64_t numbers = size.vocab * size.dim;
    const std::int64_t all = io.outputs[Op::dweight].layout_or_row_major().span();
    return cuda_kernel(
        io,
        [=, s = spread(all / lanes)](const Addresses& a, cudaStream_t stream) {
          const float* const sum = a.in(Op::sum);
          float* const dweight = a.out(Op::dweight);
          if (sum != dweight) {
            launch(begin_sum<lanes>, s.blocks, s.threads, 0, stream, all, numbers, sum, dweight);
          }
          if (size.tokens == 0) return;
          const TokenKey* const sorted = sort.launch_on(stream, TokenArray{a.in<std::int64_t>(Op::tokens)},
                                                        size.vocab, a.workspace<TokenKey>());
          add_runs<lanes>(stream, GradientRows{a.in(Op::dy)}, size.tokens, size.dim, sorted,
                          TableRows{dweight});
        },
        sort.workspace_bytes());
  });
}

}  // namespace lockstep::kernels
