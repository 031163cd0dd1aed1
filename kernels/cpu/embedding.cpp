#include "kernels/embedding.h"

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_kernel.h"
#include "kernels/cpu/sorted_tokens.h"

namespace lockstep::kernels {
namespace {

/// Runs that begin in [begin, end).
void add_runs(const SortedTokens& sorted, std::int64_t begin, std::int64_t end, std::int64_t dim,
              const float* dy, float* dweight) {
  while (begin < end && !sorted.begins_run(begin)) ++begin;
  float* row = nullptr;
  for (std::int64_t at = begin; at < sorted.count(); ++at) {
    if (sorted.begins_run(at)) {
      if (at >= end) return;
      row = dweight + sorted.token(at) * dim;
    }
    const float* const from = dy + sorted.place(at) * dim;
    for (std::int64_t k = 0; k < dim; ++k) row[k] += from[k];
  }
}

}  // namespace

KernelPtr prepare(Cpu, const Embedding&, const KernelIo& io) {
  using Op = Embedding;
  const EmbeddingSize size(io.inputs[Op::tokens], io.inputs[Op::weight]);
  return simd_kernel(io, [size](const Addresses& a) {
    const auto* const tokens = a.in<std::int64_t>(Op::tokens);
    const float* const weight = a.in(Op::weight);
    float* const y = a.out(Op::y);
    parallel_ranges(size.tokens, size.tokens * size.dim, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        float* const to = y + n * size.dim;
        if (tokens[n] >= 0 && tokens[n] < size.vocab) {
          std::copy_n(weight + tokens[n] * size.dim, size.dim, to);
        } else {
          std::fill_n(to, size.dim,
                      tokens[n] == padding_token ? 0.0F : std::numeric_limits<float>::quiet_NaN());
        }
      }
    });
  });
}

KernelPtr prepare(Cpu, const EmbeddingBackward&, const KernelIo& io) {
  using Op = EmbeddingBackward;
  const EmbeddingSize size(io.inputs[Op::tokens], io.outputs[Op::dweight]);
  if (size.tokens > std::numeric_limits<std::int32_t>::max()) {
    throw UsageError("embedding_backward: more than 2147483647 tokens in a batch; take a smaller one");
  }
  return simd_kernel(
      io,
      [size](const Addresses& a) {
        float* const dweight = a.out(Op::dweight);
        const std::int64_t numbers = size.vocab * size.dim;
        parallel_ranges(numbers, numbers, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
          std::fill(dweight + begin, dweight + end, 0.0F);
        });
        const SortedTokens sorted(size, a.in<std::int64_t>(Op::tokens), a.workspace<std::int32_t>());
        parallel_ranges(sorted.count(), sorted.count() * size.dim, 1,
                        [&](std::int64_t begin, std::int64_t end) {
                          add_runs(sorted, begin, end, size.dim, a.in(Op::dy), dweight);
                        });
      },
      SortedTokens::workspace_bytes(size));
}

}  // namespace lockstep::kernels
