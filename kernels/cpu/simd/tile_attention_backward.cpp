#include "kernels/cpu/simd/tile_squares.h"
#include "kernels/tile_attention.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {

TileColumns::Simd run;
TilePairs::Simd run;
TileResult::Simd run;
TileRows::Simd run;
TileTranspose::Simd run;

namespace {

using Op = TileAttentionBackward;
using L = Lanes<native_width>;
using Floats = L::Floats;

[[gnu::always_inline]] inline std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// As BackwardPass of attention_backward.cpp, but with a row for each key and a column for each query, P^T
/// and dS^T, of 32 keys at a time: what a query has is a vector, and they are left factors as they lie.
/// Products: S^T = k q^T, dP^T = v dy^T, dv = P^T dy, dk = dS^T q, and dq^T = k^T dS^T of a chunk of keys.
class Pass {
 public:
  Pass(const Attention& op, const AttentionHead& head, const AttentionGradients& at, float* scratch)
      : op_(op),
        head_(head),
        at_(at),
        queries_(Op::pairs(head.queries)),
        dim_(Op::pairs(head.dim)),
        row_(Op::row(head.queries)) {
    const auto tiles = [&](std::int64_t count) {
      char* const from = reinterpret_cast<char*>(scratch);
      scratch += count * Tile::bytes / static_cast<std::int64_t>(sizeof(float));
      return from;
    };
    const auto floats = [&](std::int64_t count) {
      float* const from = scratch;
      scratch += count;
      return from;
    };
    q_columns_ = tiles(2 * queries_ * dim_);
    dy_columns_ = tiles(2 * queries_ * dim_);
    q_pairs_ = tiles(2 * queries_ * dim_);
    dy_pairs_ = tiles(2 * queries_ * dim_);
    k_rows_ = tiles(2 * dim_);
    v_rows_ = tiles(2 * dim_);
    k_transpose_ = tiles(2 * dim_ * Op::chunk);
    p_rows_ = tiles(2 * queries_);
    ds_rows_ = tiles(2 * queries_);
    ds_pairs_ = tiles(2 * queries_ * Op::chunk);
    scores_ = floats(Tile::pair * row_);
    gradients_ = floats(Tile::pair * row_);
    dq_ = floats(dim_ * Tile::pair * row_);
    logsumexp_ = floats(row_);
    row_sums_ = floats(row_);
    sums_ = floats(Tile::pair * Tile::pair * dim_);
  }

  void run() {
    pack_queries();
    const Configuration configured;
    constexpr std::int64_t chunk = Op::chunk * Tile::pair;
    for (std::int64_t key = 0; key < head_.keys; key += chunk) keys(key, least(chunk, head_.keys - key));
    for (std::int64_t q = 0; q < queries_; ++q) {
      const TileResult result{least(Tile::pair, head_.queries - q * Tile::pair), head_.dim, row_, head_.q_row,
                              TileResult::As::transposed_bf16};
      LOCKSTEP_ISA::run(result, dq_ + q * Tile::pair,
                        static_cast<Bf16*>(at_.dq) + q * Tile::pair * head_.q_row);
    }
  }

 private:
  static const Bf16* rows_of(const void* from, std::int64_t first, std::int64_t row) {
    return static_cast<const Bf16*>(from) + first * row;
  }

  void pack_queries() {
    const std::int64_t columns_next = dim_ * Tile::bytes;
    const std::int64_t pairs_next = queries_ * Tile::bytes;
    const std::int64_t queries = head_.queries;
    LOCKSTEP_ISA::run(TileColumns{queries, head_.dim, head_.q_row, columns_next}, head_.q, q_columns_);
    LOCKSTEP_ISA::run(TileColumns{queries, head_.dim, head_.y_row, columns_next}, at_.dy, dy_columns_);
    LOCKSTEP_ISA::run(TilePairs{queries, head_.dim, head_.q_row, pairs_next}, head_.q, q_pairs_, nullptr);
    LOCKSTEP_ISA::run(TilePairs{queries, head_.dim, head_.y_row, pairs_next}, at_.dy, dy_pairs_, nullptr);
    for (std::int64_t query = 0; query < row_; ++query) {
      const bool there = query < queries;
      logsumexp_[query] = there ? at_.logsumexp[query] : __builtin_inff();
      row_sums_[query] = there ? row_sum(query) : 0.0F;
    }
  }

  /// Of dy * y.
  float row_sum(std::int64_t query) const {
    const Bf16* const y = rows_of(at_.y, query, head_.y_row);
    const Bf16* const dy = rows_of(at_.dy, query, head_.y_row);
    Floats lanes{};
    std::int64_t c = 0;
    for (; c + 2 * native_width <= head_.dim; c += 2 * native_width) {
      L::add_products(lanes, L::load_words(y + c), L::load_words(dy + c));
    }
    float sum = L::sum_of_halves(lanes);
    for (; c < head_.dim; ++c) sum += load(y + c) * load(dy + c);
    return sum;
  }

  /// A chunk of keys with all queries.
  void keys(std::int64_t first, std::int64_t count) {
    const std::int64_t first_query = op_.causal ? first / Tile::pair : 0;
    for (std::int64_t block = 0; block * Tile::pair < count; ++block) {
      const std::int64_t at = first + block * Tile::pair;
      const std::int64_t query = op_.causal ? least(at / Tile::pair, queries_) : 0;
      clear_pairs(first_query, query, block);
      keys_of_block(at, least(Tile::pair, first + count - at), query, block);
    }
    if (first_query >= queries_) return;
    LOCKSTEP_ISA::run(TileTranspose{count, head_.dim, head_.k_row, Op::chunk * Tile::bytes},
                      rows_of(head_.k, first, head_.k_row), k_transpose_);
    multiply({.rows = dim_,
              .columns = queries_ - first_query,
              .depth = Op::pairs(count),
              .a_next = Op::chunk * Tile::bytes,
              .b_next = Op::chunk * Tile::bytes,
              .c_row = row_,
              .c_right = Tile::pair,
              .c_below = Tile::pair * row_,
              .accumulates = first > 0},
             k_transpose_, ds_pairs_ + 2 * first_query * Op::chunk * Tile::bytes,
             dq_ + first_query * Tile::pair);
  }

  /// dS of a block of keys that these pairs of queries do not see.
  void clear_pairs(std::int64_t begin, std::int64_t end, std::int64_t block) const {
    for (std::int64_t tile = 2 * begin; tile < 2 * end; ++tile) {
      auto* const words = reinterpret_cast<float*>(ds_pairs_ + (tile * Op::chunk + block) * Tile::bytes);
      for (std::int64_t i = 0; i < Tile::elements / 2; i += native_width) L::store(words + i, Floats{});
    }
  }

  /// Pairs of queries from `query` on see them, if any.
  void keys_of_block(std::int64_t first, std::int64_t count, std::int64_t query, std::int64_t block) {
    const std::int64_t queries = queries_ - query;
    const std::int64_t next = dim_ * Tile::bytes;
    LOCKSTEP_ISA::run(TileRows{count, head_.dim, head_.k_row, next}, rows_of(head_.k, first, head_.k_row),
                      k_rows_);
    LOCKSTEP_ISA::run(TileRows{count, head_.dim, head_.v_row, next}, rows_of(head_.v, first, head_.v_row),
                      v_rows_);
    const TileProduct pairs{.rows = 1,
                            .columns = queries,
                            .depth = dim_,
                            .a_next = next,
                            .b_next = next,
                            .c_row = row_,
                            .c_right = Tile::pair,
                            .c_below = 0};
    multiply(pairs, k_rows_, q_columns_ + 2 * query * next, scores_ + query * Tile::pair);
    multiply(pairs, v_rows_, dy_columns_ + 2 * query * next, gradients_ + query * Tile::pair);
    for (std::int64_t r = 0; r < Tile::pair; r += 2) {
      differentiate(r, first, count, query * Tile::pair);
      differentiate(r + 1, first, count, query * Tile::pair);
      pack(r, query * Tile::pair, block);
    }
    sum_over_queries(p_rows_, dy_pairs_, query, rows_of(at_.dv, first, head_.v_row), head_.v_row, count);
    sum_over_queries(ds_rows_, q_pairs_, query, rows_of(at_.dk, first, head_.k_row), head_.k_row, count);
  }

  /// Scores of a key to P, and dP to dS times `scale`.
  void differentiate(std::int64_t r, std::int64_t first, std::int64_t count, std::int64_t query) {
    float* const values = scores_ + r * row_;
    float* const gradients = gradients_ + r * row_;
    const std::int64_t end = queries_ * Tile::pair;
    const bool seen = r < count && (head_.tokens == nullptr || head_.tokens[first + r] != -1);
    const std::int64_t begin = !seen ? end : op_.causal && first + r > query ? first + r : query;
    const auto scale = static_cast<float>(op_.scale);
#pragma omp simd
    for (std::int64_t c = begin / native_width * native_width; c < end; ++c) {
      values[c] = Math::exp_or_zero(values[c] * scale - logsumexp_[c]);
      gradients[c] = values[c] * (gradients[c] - row_sums_[c]) * scale;
    }
    for (std::int64_t c = query; c < least(begin, end); ++c) values[c] = gradients[c] = 0;
  }

  /// Two rows of P and dS to tiles.
  void pack(std::int64_t r, std::int64_t query, std::int64_t block) const {
    const auto in_rows = [&](char* tiles, std::int64_t row, std::int64_t c) {
      const std::int64_t tile = row / Tile::rows * queries_ + c / Tile::terms;
      return reinterpret_cast<Bf16*>(tiles + tile * Tile::bytes) + row % Tile::rows * Tile::terms +
             c % Tile::terms;
    };
    for (std::int64_t c = query; c < queries_ * Tile::pair; c += native_width) {
      const Floats first = L::load(gradients_ + r * row_ + c);
      const Floats second = L::load(gradients_ + (r + 1) * row_ + c);
      L::store(in_rows(p_rows_, r, c), L::load(scores_ + r * row_ + c));
      L::store(in_rows(p_rows_, r + 1, c), L::load(scores_ + (r + 1) * row_ + c));
      L::store(in_rows(ds_rows_, r, c), first);
      L::store(in_rows(ds_rows_, r + 1, c), second);
      const std::int64_t tile = c / Tile::rows * Op::chunk + block;
      L::store_words(ds_pairs_ + tile * Tile::bytes + r / 2 * 64 + c % Tile::rows * 4,
                     L::paired(first, second));
    }
  }

  /// What a block of keys gets from the queries that see it.
  void sum_over_queries(const char* rows, const char* pairs, std::int64_t query, const Bf16* to,
                        std::int64_t to_row, std::int64_t count) {
    constexpr std::int64_t square = Tile::pair * Tile::pair;
    multiply({.rows = 1,
              .columns = dim_,
              .depth = queries_ - query,
              .a_next = queries_ * Tile::bytes,
              .b_next = queries_ * Tile::bytes,
              .c_row = Tile::pair,
              .c_right = square,
              .c_below = 0},
             rows + query * Tile::bytes, pairs + query * Tile::bytes, sums_);
    for (std::int64_t i = 0; i < dim_; ++i) {
      const std::int64_t column = i * Tile::pair;
      const TileResult result{count, least(Tile::pair, head_.dim - column), Tile::pair, to_row,
                              TileResult::As::bf16};
      LOCKSTEP_ISA::run(result, sums_ + i * square, const_cast<Bf16*>(to) + column);
    }
  }

  const Attention& op_;
  const AttentionHead& head_;
  const AttentionGradients& at_;
  std::int64_t queries_, dim_;  ///< in pairs of rows or columns of tiles
  std::int64_t row_;
  char *q_columns_, *dy_columns_;  ///< of all queries
  char *q_pairs_, *dy_pairs_;      ///< likewise
  char *k_rows_, *v_rows_;         ///< of a block of keys
  char* k_transpose_;              ///< of a chunk
  char *p_rows_, *ds_rows_;        ///< of a block
  char* ds_pairs_;                 ///< of a chunk
  float *scores_, *gradients_;     ///< of a block
  float* dq_;                      ///< the transpose
  float *logsumexp_, *row_sums_;
  float* sums_;
};

}  // namespace

void run(const TileAttentionBackward& op, const AttentionHead& head, const AttentionGradients& at,
         float* scratch) {
  Pass(op.forward, head, at, scratch).run();
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
