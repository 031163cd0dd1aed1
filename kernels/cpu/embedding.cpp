#include "kernels/embedding.h"

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_kernel.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/sorted_tokens.h"

namespace lockstep::kernels {
namespace {

/// row[k] += the sum of the run's rows of dy, in pieces that stay in the first cache.
void add_run(const SortedTokens& sorted, std::int64_t begin, std::int64_t end, std::int64_t dim,
             const float* dy, float* row) {
  constexpr std::int64_t piece = 1024;
  alignas(64) float total[piece];
  for (std::int64_t first = 0; first < dim; first += piece) {
    const std::int64_t n = std::min(piece, dim - first);
    std::copy_n(dy + sorted.place(begin) * dim + first, n, total);
    for (std::int64_t at = begin + 1; at < end; ++at) {
      const float* const from = dy + sorted.place(at) * dim + first;
      for (std::int64_t k = 0; k < n; ++k) total[k] += from[k];
    }
    for (std::int64_t k = 0; k < n; ++k) row[first + k] += total[k];
  }
}

/// Runs that begin in [begin, end).
void add_runs(const SortedTokens& sorted, std::int64_t begin, std::int64_t end, std::int64_t dim,
              const float* dy, float* dweight) {
  while (begin < end && !sorted.begins_run(begin)) ++begin;
  while (begin < end) {
    std::int64_t behind = begin + 1;
    while (behind < sorted.count() && !sorted.begins_run(behind)) ++behind;
    add_run(sorted, begin, behind, dim, dy, dweight + sorted.token(begin) * dim);
    begin = behind;
  }
}

}  // namespace

KernelPtr prepare(Cpu, const Embedding&, const KernelIo& io) {
  using Op = Embedding;
  const EmbeddingSize size(io.inputs[Op::tokens], io.inputs[Op::weight]);
  return cpu_kernel(io, [size](const Addresses& a) {
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
  return cpu_kernel(
      io,
      [size](const Addresses& a) {
        float* const dweight = a.out(Op::dweight);
        const std::int64_t numbers = size.vocab * size.dim;
        const float* const sum = a.in(Op::sum);
        if (sum != dweight) {
          parallel_ranges(numbers, numbers, cache_line_floats, [&](std::int64_t begin, std::int64_t end) {
            if (sum == nullptr) {
              std::fill(dweight + begin, dweight + end, 0.0F);
            } else {
              std::copy(sum + begin, sum + end, dweight + begin);
            }
          });
        }
        const SortedTokens sorted(size, a.in<std::int64_t>(Op::tokens), a.workspace<std::int32_t>());
        parallel_ranges(sorted.count(), sorted.count() * size.dim, 1,
                        [&](std::int64_t begin, std::int64_t end) {
                          add_runs(sorted, begin, end, size.dim, a.in(Op::dy), dweight);
                        });
      },
      SortedTokens::workspace_bytes(size));
}

}  // namespace lockstep::kernels
