#pragma once

#include "kernels/cuda/attention_tensor_cores.h"

/// What the gradients of queries and those of keys share: see attention_tensor_cores.h.
namespace lockstep::kernels {

/// A warp's 16 rows of one operand as left factors in registers.
template <int dim>
struct OwnRows {
  LeftTile tiles[dim / 16];

  /// From the first on; `count` are there, of `columns`.
  template <class Element>
  __device__ void load(const Element* first, std::int64_t row, std::int64_t count, std::int64_t columns) {
    LOCKSTEP_UNROLL
    for (int c = 0; c < dim / 16; ++c) tiles[c] = load_left(first, row, count, columns, 16 * c);
  }
};

/// What decides over probabilities.
struct Rules {
  Dropout dropout;
  CudaMask mask;
  const Philox* words;  ///< of the head
  bool drops;
};

/// Of a lane's four pairs, probabilities and gradients of scores, from the scores and dy v^T. `query` and
/// `key` are the tile's first; `log(i)`, to the base of 2, and `row_sum(i)` are those of pair i's query.
template <bool plain, bool rows_are_keys, class Log, class RowSum>
__device__ void turn_to_gradients(const CudaHead& h, const Rules& rules, bool all, int query, int key,
                                  Log log, RowSum row_sum, SumTile& scores, SumTile& products) {
  float factors[4] = {1, 1, 1, 1};
  if constexpr (!plain) {
    if (rules.drops) drop_factors<rows_are_keys>(rules.dropout, *rules.words, query, key, factors);
  }
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = SumTile::row(i);
    const int column = SumTile::column(i);
    const bool seen = all || sees<plain>(h, rules.mask, query + (rows_are_keys ? column : row),
                                         key + (rows_are_keys ? row : column));
    const float p = seen ? fast_exp2(scores.at[i] * (h.scale * log2_of_e) - log(i)) : 0.0F;
    scores.at[i] = p * factors[i];
    products.at[i] = p * (factors[i] * products.at[i] - row_sum(i));
  }
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
