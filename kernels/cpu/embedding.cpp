#include "kernels/embedding.h"

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd_kernel.h"

namespace lockstep::kernels {
namespace {

/// Places in the batch by token, in their order: a run of places for each token that occurs.
class SortedTokens {
 public:
  static std::size_t workspace_bytes(const EmbeddingSize& size) {
    return static_cast<std::size_t>(size.vocab + 1 + size.tokens) * sizeof(std::int32_t);
  }

  /// A counting sort, which keeps the order of equal tokens. Those that are no rows are left out.
  SortedTokens(const EmbeddingSize& size, const std::int64_t* tokens, std::int32_t* workspace)
      : tokens_(tokens), places_(workspace + size.vocab + 1) {
    std::int32_t* const next = workspace;  // by token: where its next place goes
    std::fill(next, next + size.vocab + 1, 0);
    const auto is_row = [&](std::int64_t token) { return token >= 0 && token < size.vocab; };
    for (std::int64_t n = 0; n < size.tokens; ++n) {
      if (is_row(tokens[n])) ++next[tokens[n] + 1];
    }
    for (std::int64_t token = 0; token < size.vocab; ++token) next[token + 1] += next[token];
    count_ = next[size.vocab];
    for (std::int64_t n = 0; n < size.tokens; ++n) {
      if (is_row(tokens[n])) places_[next[tokens[n]]++] = static_cast<std::int32_t>(n);
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t place(std::int64_t at) const { return places_[at]; }
  std::int64_t token(std::int64_t at) const { return tokens_[places_[at]]; }
  bool begins_run(std::int64_t at) const { return at == 0 || token(at) != token(at - 1); }

 private:
  const std::int64_t* tokens_;
  std::int32_t* places_;
  std::int64_t count_ = 0;
};

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
