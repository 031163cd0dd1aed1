#include "kernels/cpu/simd/attention_tiles.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

/// The softmax of a row so far (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax",
/// arXiv 1805.02867).
struct RowState {
  float maximum, sum;
};

/// Scores to probabilities, not yet divided by their sum; gives the factor for what was summed before.
float take_up(RowState& row, float* scores, std::int64_t count) {
  float maximum = row.maximum;
#pragma omp simd reduction(max : maximum)
  for (std::int64_t c = 0; c < Tile::padded(count); ++c) {
    const float score = c < count ? scores[c] : -infinity;
    maximum = score > maximum ? score : maximum;
  }
  const bool none = maximum == -infinity;
  const float shrink = none ? 1.0F : Math::exp(row.maximum - maximum);
  row.sum = row.sum * shrink + exponentials(scores, count, none ? infinity : maximum);
  row.maximum = maximum;
  return shrink;
}

template <class Element>
class Forward {
 public:
  Forward(const Attention& op, const AttentionHead& head, Element* y, float* logsumexp, float* scratch)
      : op_(op), head_(head), y_(y), logsumexp_(logsumexp), dim_(Tile::padded(head.dim)) {
    keys_ = scratch;
    values_ = keys_ + Tile::rounded(head.keys, Tile::keys) * dim_;
    queries_ = values_ + Tile::rounded(head.keys, Tile::keys) * dim_;
    sums_ = queries_ + Tile::queries * dim_;
    scores_ = sums_ + Tile::queries * dim_;
  }

  void run() {
    pack(op_.causal ? least(head_.end_query, head_.keys) : head_.keys);
    for (std::int64_t at = head_.first_query; at < head_.end_query; at += Tile::queries) {
      tile(at, least(Tile::queries, head_.end_query - at));
    }
  }

 private:
  void pack(std::int64_t keys) {
    const auto* const k = static_cast<const Element*>(head_.k);
    const auto* const v = static_cast<const Element*>(head_.v);
    for (std::int64_t at = 0; at < keys; at += Tile::keys) {
      const std::int64_t rows = least(Tile::keys, keys - at);
      pack_columns<Tile::keys>(k + at * head_.k_row, head_.k_row, rows, head_.dim, 1, keys_ + at * dim_);
      pack_rows(v + at * head_.v_row, head_.v_row, rows, head_.dim, 1, values_ + at * dim_, dim_);
    }
  }

  void tile(std::int64_t first, std::int64_t queries) {
    const auto* const q = static_cast<const Element*>(head_.q) + first * head_.q_row;
    pack_columns<Tile::queries>(q, head_.q_row, queries, head_.dim, static_cast<float>(op_.scale), queries_);
    for (std::int64_t r = 0; r < queries; ++r) rows_[r] = {-infinity, 0};
    for (std::int64_t c = 0; c < queries * dim_; ++c) sums_[c] = 0;
    const std::int64_t end = op_.causal ? least(first + queries, head_.keys) : head_.keys;
    for (std::int64_t at = 0; at < end; at += Tile::keys) {
      add_keys(first, queries, at, least(Tile::keys, end - at));
    }
    finish(first, queries);
  }

  void add_keys(std::int64_t first, std::int64_t queries, std::int64_t at, std::int64_t keys) {
    const Band band{op_.causal ? first - at : head_.keys};
    multiply_pairs({.a = queries_,
                    .b = keys_ + at * dim_,
                    .c = scores_,
                    .b_row = Tile::keys,
                    .c_row = Tile::row,
                    .rows = queries,
                    .columns = keys,
                    .depth = head_.dim,
                    .accumulates = false},
                   band);
    for (std::int64_t r = 0; r < queries; ++r) {
      float* const scores = scores_ + r * Tile::row;
      const std::int64_t count = band.keys_of(r + 1, keys);
      if (head_.tokens != nullptr) mask(scores, count, head_.tokens + at);
      const float shrink = take_up(rows_[r], scores, count);
      if (op_.p > 0) drop(scores, count, first + r, at);
      if (at == 0 || shrink == 1) continue;
      float* const sums = sums_ + r * dim_;
      for (std::int64_t c = 0; c < dim_; c += native_width) L::store(sums + c, L::load(sums + c) * shrink);
    }
    sum_over_keys({.a = scores_,
                   .b = values_ + at * dim_,
                   .c = sums_,
                   .b_row = dim_,
                   .c_row = dim_,
                   .rows = queries,
                   .columns = dim_,
                   .depth = keys,
                   .accumulates = true},
                  band);
  }

  void drop(float* values, std::int64_t count, std::int64_t query, std::int64_t key) {
    float factors[Tile::keys];
    drop_factors(op_, head_.random, query, key, factors);
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) values[c] *= factors[c];
  }

  void finish(std::int64_t first, std::int64_t queries) {
    for (std::int64_t r = 0; r < queries; ++r) {
      const RowState row = rows_[r];
      const bool none = row.sum == 0;
      const float factor = none ? 0.0F : 1.0F / row.sum;
      float* const sums = sums_ + r * dim_;
      for (std::int64_t c = 0; c < dim_; c += native_width) L::store(sums + c, L::load(sums + c) * factor);
      // So that backward finds probabilities of zero.
      logsumexp_[first + r] = none ? infinity : row.maximum + __builtin_logf(row.sum);
    }
    store_rows(sums_, dim_, queries, head_.dim, y_ + first * head_.y_row, head_.y_row);
  }

  const Attention& op_;
  const AttentionHead& head_;
  Element* y_;
  float* logsumexp_;
  std::int64_t dim_;  ///< of packed rows
  float* keys_;       ///< by tiles, packed by columns
  float* values_;
  float* queries_;  ///< a tile, packed by columns
  float* sums_;
  float* scores_;
  RowState rows_[Tile::queries];
};

}  // namespace

void run(const Attention& op, const AttentionHead& head, void* y, float* logsumexp, float* scratch) {
  if (head.dtype == DType::bf16) return Forward(op, head, static_cast<Bf16*>(y), logsumexp, scratch).run();
  Forward(op, head, static_cast<float*>(y), logsumexp, scratch).run();
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
