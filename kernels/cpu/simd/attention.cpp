#include "kernels/cpu/simd/attention_tiles.h"

namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

Floats greater(Floats a, Floats b) {
  return a > b ? a : b;
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
    pack(first_tile(head_.first_query, head_.end_query - head_.first_query),
         op_.causal ? least(head_.end_query, head_.keys) : head_.keys);
    for (std::int64_t at = head_.first_query; at < head_.end_query; at += Tile::queries) {
      tile(at, least(Tile::queries, head_.end_query - at));
    }
  }

 private:
  /// Where the first tile of keys begins that one of these queries sees.
  std::int64_t first_tile(std::int64_t query, std::int64_t queries) const {
    return first_seen_of(head_, query, queries) / Tile::keys * Tile::keys;
  }

  void pack(std::int64_t begin, std::int64_t end) {
    const auto* const k = static_cast<const Element*>(head_.k);
    const auto* const v = static_cast<const Element*>(head_.v);
    for (std::int64_t at = begin; at < end; at += Tile::keys) {
      const std::int64_t rows = least(Tile::keys, end - at);
      pack_columns<Tile::keys>(k + at * head_.k_row, head_.k_row, rows, head_.dim, 1, keys_ + at * dim_);
      pack_rows(v + at * head_.v_row, head_.v_row, rows, head_.dim, 1, values_ + at * dim_, dim_);
    }
  }

  void tile(std::int64_t first, std::int64_t queries) {
    const auto* const q = static_cast<const Element*>(head_.q) + first * head_.q_row;
    pack_columns<Tile::queries>(q, head_.q_row, queries, head_.dim, static_cast<float>(op_.scale), queries_);
    for (std::int64_t r = 0; r < queries; ++r) {
      maxima_[r] = -infinity;
      totals_[r] = 0;
    }
    for (std::int64_t c = 0; c < queries * dim_; ++c) sums_[c] = 0;
    const std::int64_t end = op_.causal ? least(first + queries, head_.keys) : head_.keys;
    for (std::int64_t at = first_tile(first, queries); at < end; at += Tile::keys) {
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
    take_up(first, queries, at, keys, band);
    if (op_.p > 0) {
      for (std::int64_t r = 0; r < queries; ++r)
        drop(scores_ + r * Tile::row, band.keys_of(r + 1, keys), first + r, at);
    }
    for (std::int64_t r = 0; at > 0 && r < queries; ++r) {
      float* const sums = sums_ + r * dim_;
      for (std::int64_t c = 0; c < dim_; c += native_width)
        L::store(sums + c, L::load(sums + c) * shrinks_[r]);
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

  /// Scores to probabilities, not yet divided by their sum: the softmax goes on from tile to tile
  /// (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867).
  void take_up(std::int64_t first, std::int64_t queries, std::int64_t at, std::int64_t keys,
               const Band& band) {
    if (head_.tokens != nullptr) fill_mask(head_.tokens + at, keys, masks_);
    Floats lanes[Tile::queries] = {};
    float found[Tile::queries];
    for (std::int64_t r = 0; r < queries; ++r) {
      float* const scores = scores_ + r * Tile::row;
      const std::int64_t count = band.keys_of(r + 1, keys);
      if (head_.tokens != nullptr) mask(scores, count, masks_);
      if (head_.positions != nullptr) hide(scores, count, first_seen(head_, first + r) - at);
      end_row(scores, count);
      lanes[r] = L::all(-infinity);
      for (std::int64_t c = 0; c < count; c += native_width)
        lanes[r] = greater(lanes[r], L::load(scores + c));
    }
    combine_lanes(lanes, queries, found, greater);
    for (std::int64_t r = 0; r < queries; ++r) {
      const float maximum = found[r] > maxima_[r] ? found[r] : maxima_[r];
      found[r] = maximum == -infinity ? infinity : maximum;
      shrinks_[r] = at == 0 || maximum == -infinity ? 1.0F : Math::exp(maxima_[r] - maximum);
      maxima_[r] = maximum;
    }
    for (std::int64_t r = 0; r < queries; ++r)
      lanes[r] = exponentials(scores_ + r * Tile::row, band.keys_of(r + 1, keys), found[r]);
    combine_lanes(lanes, queries, found, added);
    for (std::int64_t r = 0; r < queries; ++r) totals_[r] = totals_[r] * shrinks_[r] + found[r];
  }

  void drop(float* values, std::int64_t count, std::int64_t query, std::int64_t key) {
    float factors[Tile::keys];
    drop_factors(op_, head_.random, query, key, factors);
#pragma omp simd
    for (std::int64_t c = 0; c < count; ++c) values[c] *= factors[c];
  }

  void finish(std::int64_t first, std::int64_t queries) {
    for (std::int64_t r = 0; r < queries; ++r) {
      const bool none = totals_[r] == 0;
      const float factor = none ? 0.0F : 1.0F / totals_[r];
      float* const sums = sums_ + r * dim_;
      for (std::int64_t c = 0; c < dim_; c += native_width) L::store(sums + c, L::load(sums + c) * factor);
      // So that backward finds probabilities of zero.
      logsumexp_[first + r] = none ? infinity : maxima_[r] + __builtin_logf(totals_[r]);
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
  float masks_[Tile::keys] = {};  ///< of a tile, where there are tokens
  float maxima_[Tile::queries];   ///< of the scores of each query so far
  float totals_[Tile::queries];   ///< and the sums of its probabilities
  float shrinks_[Tile::queries];  ///< factors for what was summed before the last tile
};

}  // namespace

void run(const Attention& op, const AttentionHead& head, void* y, float* logsumexp, float* scratch) {
  if (head.dtype == DType::bf16) return Forward(op, head, static_cast<Bf16*>(y), logsumexp, scratch).run();
  Forward(op, head, static_cast<float*>(y), logsumexp, scratch).run();
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
