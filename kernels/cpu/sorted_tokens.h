#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/embedding.h"

namespace lockstep::kernels {

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

}  // namespace lockstep::kernels
