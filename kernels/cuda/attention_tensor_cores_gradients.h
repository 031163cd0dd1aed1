#pragma once

#include "kernels/cuda/attention_tensor_cores.h"

/// What the gradients of queries and those of keys share: see attention_tensor_cores.h.
namespace lockstep::kernels {

/// A warp's rows of one operand, `strips` times 16 from the first on, as left factors in registers.
template <class Element, int dim, int strips>
struct OwnRows {
  LeftTile tiles[strips > 0 ? strips : 1][dim / 16];

  /// `count` rows are there, of `columns`.
  __device__ OwnRows(const Element* first, std::int64_t row, std::int64_t count, std::int64_t columns) {
    LOCKSTEP_UNROLL
    for (int s = 0; s < strips; ++s) {
      LOCKSTEP_UNROLL
      for (int c = 0; c < dim / 16; ++c)
        tiles[s][c] = load_left(first + 16 * s * row, row, count - 16 * s, columns, 16 * c);
    }
  }
};

/// What decides over probabilities.
struct Rules {
  Dropout dropout;
  CudaMask mask;
  Philox words;
  bool drops;
};

/// Of a pair, a probability and the gradient of its score, from the score and dy v^T. `log`, a power of 2,
/// and `row_sum` are those of the query.
template <bool plain>
__device__ void turn_to_gradients(const CudaHead& h, const Rules& rules, bool all, float log, float row_sum,
                                  int query, int key, float& score, float& product) {
  const bool seen = all || sees<plain>(h, rules.mask, query, key);
  const float p = seen ? fast_exp2(score * (h.scale * log2_of_e) - log) : 0.0F;
  const float factor =
      plain || !rules.drops || p == 0 ? 1.0F : drop_factor(rules.dropout, rules.words, query, key);
  score = p * factor;
  product = p * (factor * product - row_sum);
}

/// A warp's 16 rows, times `scale`, to `to`, the first one; `count` are there.
template <class Element, int dim>
__device__ void write(const SumTile* sums, Element* to, std::int64_t stride, std::int64_t count,
                      std::int64_t columns, float scale) {
  LOCKSTEP_UNROLL
  for (int c = 0; c < dim / 8; ++c) {
    LOCKSTEP_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = SumTile::row(2 * half);
      const int column = 8 * c + SumTile::column(0);
      if (r >= count || column >= columns) continue;
      *aligned_cast<std::uint32_t>(to + r * stride + column) =
          narrow_pair<Element>(sums[c].at[2 * half] * scale, sums[c].at[2 * half + 1] * scale);
    }
  }
}

}  // namespace lockstep::kernels
