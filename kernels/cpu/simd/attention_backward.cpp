#include "kernels/cpu/simd/attention_tiles.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// With P the probabilities, M what dropout makes of them, dP = dy v^T and D the row sums of dy * y:
/// dv = (P M)^T dy, dS = P (M dP - D), dq = scale dS k, dk = scale dS^T q.
template <class Element>
class BackwardPass {
 public:
  BackwardPass(const Attention& op, const AttentionHead& head, const AttentionGradients& at, float* scratch)
      : op_(op), head_(head), at_(at), dim_(Tile::padded(head.dim)) {
    const std::int64_t all = Tile::rounded(head.queries, Tile::queries);
    const auto take = [&](std::int64_t floats) {
      float* const from = scratch;
      scratch += floats;
      return from;
    };
    q_ = take(all * dim_);
    q_columns_ = take(all * dim_);
    dy_ = take(all * dim_);
    dy_columns_ = take(all * dim_);
    dq_ = take(all * dim_);
    k_ = take(Tile::keys * dim_);
    k_columns_ = take(Tile::keys * dim_);
    v_columns_ = take(Tile::keys * dim_);
    dk_ = take(Tile::keys * dim_);
    dv_ = take(Tile::keys * dim_);
    probabilities_ = take(Tile::queries * Tile::row);
    gradients_ = take(Tile::queries * Tile::row);
    row_sums_ = take(all);
  }

  void run() {
    pack_queries();
    for (std::int64_t at = 0; at < head_.keys; at += Tile::keys) keys(at, least(Tile::keys, head_.keys - at));
    const auto scale = static_cast<float>(op_.scale);
    for (std::int64_t c = 0; c < head_.queries * dim_; c += native_width)
      L::store(dq_ + c, L::load(dq_ + c) * scale);
    store_rows(dq_, dim_, head_.queries, head_.dim, static_cast<Element*>(at_.dq), head_.q_row);
  }

 private:
  static const Element* rows_of(const void* from, std::int64_t first, std::int64_t row) {
    return static_cast<const Element*>(from) + first * row;
  }

  void pack_queries() {
    const auto scale = static_cast<float>(op_.scale);
    for (std::int64_t at = 0; at < head_.queries; at += Tile::queries) {
      const std::int64_t rows = least(Tile::queries, head_.queries - at);
      const Element* const q = rows_of(head_.q, at, head_.q_row);
      const Element* const dy = rows_of(at_.dy, at, head_.y_row);
      pack_rows(q, head_.q_row, rows, head_.dim, scale, q_ + at * dim_, dim_);
      pack_columns<Tile::queries>(q, head_.q_row, rows, head_.dim, scale, q_columns_ + at * dim_);
      pack_rows(dy, head_.y_row, rows, head_.dim, 1, dy_ + at * dim_, dim_);
      pack_columns<Tile::queries>(dy, head_.y_row, rows, head_.dim, 1, dy_columns_ + at * dim_);
      Floats products[Tile::queries] = {};
      for (std::int64_t r = 0; r < rows; ++r) {
        const Element* const y = rows_of(at_.y, at + r, head_.y_row);
        std::int64_t c = 0;
        for (; c + native_width <= head_.dim; c += native_width)
          products[r] += L::load(y + c) * L::load(dy + r * head_.y_row + c);
        for (; c < head_.dim; ++c) products[r][0] += load(y + c) * load(dy + r * head_.y_row + c);
      }
      combine_lanes(products, rows, row_sums_ + at, added);
    }
    for (std::int64_t c = 0; c < head_.queries * dim_; ++c) dq_[c] = 0;
  }

  /// A tile of keys with all tiles of queries.
  void keys(std::int64_t first, std::int64_t count) {
    const Element* const k = rows_of(head_.k, first, head_.k_row);
    pack_rows(k, head_.k_row, count, head_.dim, 1, k_, dim_);
    pack_columns<Tile::keys>(k, head_.k_row, count, head_.dim, 1, k_columns_);
    pack_columns<Tile::keys>(rows_of(head_.v, first, head_.v_row), head_.v_row, count, head_.dim, 1,
                             v_columns_);
    if (head_.tokens != nullptr) fill_mask(head_.tokens + first, count, masks_);
    for (std::int64_t c = 0; c < count * dim_; ++c) dk_[c] = dv_[c] = 0;
    const std::int64_t skipped = op_.causal ? first / Tile::queries * Tile::queries : 0;
    for (std::int64_t at = skipped; at < head_.queries; at += Tile::queries) {
      const std::int64_t queries = least(Tile::queries, head_.queries - at);
      if (first_seen_of(head_, at, queries) < first + count) pair(at, queries, first, count);
    }
    store_rows(dk_, dim_, count, head_.dim, static_cast<Element*>(at_.dk) + first * head_.k_row, head_.k_row);
    store_rows(dv_, dim_, count, head_.dim, static_cast<Element*>(at_.dv) + first * head_.v_row, head_.v_row);
  }

  void pair(std::int64_t first, std::int64_t queries, std::int64_t first_key, std::int64_t keys) {
    const Band band{op_.causal ? first - first_key : head_.keys};
    Product scores{.a = q_columns_ + first * dim_,
                   .b = k_columns_,
                   .c = probabilities_,
                   .b_row = Tile::keys,
                   .c_row = Tile::row,
                   .rows = queries,
                   .columns = keys,
                   .depth = head_.dim,
                   .accumulates = false};
    multiply_pairs(scores, band);
    scores.a = dy_columns_ + first * dim_;
    scores.b = v_columns_;
    scores.c = gradients_;
    multiply_pairs(scores, band);
    for (std::int64_t r = 0; r < queries; ++r)
      differentiate_row(first + r, r, first_key, band.keys_of(r + 1, keys));

    Product sums{.a = probabilities_,
                 .b = dy_ + first * dim_,
                 .c = dv_,
                 .b_row = dim_,
                 .c_row = dim_,
                 .rows = keys,
                 .columns = dim_,
                 .depth = queries,
                 .accumulates = true};
    multiply<Sums::over_queries, true, Tile::row>(sums, band);
    sums.a = gradients_;
    sums.b = q_ + first * dim_;
    sums.c = dk_;
    multiply<Sums::over_queries, true, Tile::row>(sums, band);
    sums.b = k_;
    sums.c = dq_ + first * dim_;
    sums.rows = queries;
    sums.depth = keys;
    sum_over_keys(sums, band);
  }

  /// Scores to P M, and dP to dS.
  void differentiate_row(std::int64_t query, std::int64_t row, std::int64_t first_key, std::int64_t count) {
    float* const values = probabilities_ + row * Tile::row;
    float* const gradients = gradients_ + row * Tile::row;
    if (head_.tokens != nullptr) mask(values, count, masks_);
    if (head_.positions != nullptr) hide(values, count, first_seen(head_, query) - first_key);
    end_row(values, count);
    exponentials(values, count, at_.logsumexp[query]);
    const std::int64_t end = Tile::padded(count);
    const float row_sum = row_sums_[query];
    if (op_.p > 0) {
      float factors[Tile::keys];
      drop_factors(op_, head_.random, query, first_key, factors);
#pragma omp simd
      for (std::int64_t c = 0; c < end; ++c) {
        const float kept = values[c] * factors[c];
        gradients[c] = c < count ? kept * gradients[c] - values[c] * row_sum : 0.0F;
        values[c] = kept;
      }
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < end; ++c)
        gradients[c] = c < count ? values[c] * (gradients[c] - row_sum) : 0.0F;
    }
    for (std::int64_t c = end; c < end + 16; ++c) gradients[c] = 0;
  }

  const Attention& op_;
  const AttentionHead& head_;
  const AttentionGradients& at_;
  std::int64_t dim_;         ///< of packed rows
  float *q_, *q_columns_;    ///< of all queries, times `scale`; by tiles
  float *dy_, *dy_columns_;  ///< likewise
  float* dq_;                ///< likewise
  float *k_, *k_columns_;    ///< of a tile
  float* v_columns_;         ///< likewise
  float *dk_, *dv_;          ///< likewise
  float *probabilities_, *gradients_;
  float* row_sums_;
  float masks_[Tile::keys] = {};  ///< of a tile, where there are tokens
};

}  // namespace

void run(const AttentionBackward& op, const AttentionHead& head, const AttentionGradients& at,
         float* scratch) {
  if (head.dtype == DType::bf16) return BackwardPass<Bf16>(op.forward, head, at, scratch).run();
  BackwardPass<float>(op.forward, head, at, scratch).run();
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
