#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {

using kernels::test::Values;

/// What the reference is told beside q (N, T, heads * D), k and v (N, S, heads * D).
struct AttentionRules {
  std::int64_t heads = 1;
  bool causal = false;
  double scale = 0;  ///< 0: 1 / sqrt(D)
  /// The factor of the probability of (sample, head, query, key).
  std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> factor{};
  std::function<bool(std::int64_t, std::int64_t)> is_masked{};          ///< (sample, key)
  std::function<std::int64_t(std::int64_t, std::int64_t)> first_key{};  ///< that (sample, query) sees
};

/// By the definition, in double: y = softmax(scale q k^T) v for each head; zeros where there is no key.
inline Values attended(const Values& q, const Values& k, const Values& v, const AttentionRules& rules) {
  const std::int64_t columns = q.shape[2];
  const std::int64_t dim = columns / rules.heads;
  const std::int64_t queries = q.shape[1];
  const std::int64_t keys = k.shape[1];
  const double scale = rules.scale != 0 ? rules.scale : 1 / std::sqrt(static_cast<double>(dim));
  const auto element = [&](const Values& x, std::int64_t sample, std::int64_t row, std::int64_t column) {
    return x.data[static_cast<std::size_t>((sample * x.shape[1] + row) * columns + column)];
  };
  Values y{q.shape, std::vector<double>(q.data.size())};
  for (std::int64_t n = 0; n < q.shape[0]; ++n) {
    for (std::int64_t h = 0; h < rules.heads; ++h) {
      for (std::int64_t t = 0; t < queries; ++t) {
        std::vector<double> scores(static_cast<std::size_t>(keys), -INFINITY);
        for (std::int64_t s = rules.first_key ? rules.first_key(n, t) : 0; s < keys; ++s) {
          if ((rules.causal && s > t) || (rules.is_masked && rules.is_masked(n, s))) continue;
          double score = 0;
          for (std::int64_t c = h * dim; c < (h + 1) * dim; ++c)
            score += element(q, n, t, c) * element(k, n, s, c);
          scores[static_cast<std::size_t>(s)] = scale * score;
        }
        const double most = *std::ranges::max_element(scores);
        if (most == -INFINITY) continue;
        double sum = 0;
        for (const double score : scores) sum += std::exp(score - most);
        for (std::int64_t s = 0; s < keys; ++s) {
          double p = std::exp(scores[static_cast<std::size_t>(s)] - most) / sum;
          if (rules.factor) p *= rules.factor(n, h, t, s);
          for (std::int64_t c = h * dim; c < (h + 1) * dim; ++c)
            y.data[static_cast<std::size_t>((n * queries + t) * columns + c)] += p * element(v, n, s, c);
        }
      }
    }
  }
  return y;
}

}  // namespace lockstep::ops
