#pragma once

#include <string>

#include "kernels/op.h"

/// Attention while a sequence grows token by token: keys and values of earlier tokens stay in caches
/// (N, heads, capacity, D), so that a new token costs one pass over them.
namespace lockstep::kernels {

inline void require_positions(const TensorType& positions, const Shape& x) {
  require_type("positions", positions, {DType::i64, {x[0], x[1]}});
}

/// x (N, T, heads * D), keys or values of new tokens, into the cache: token t of row n becomes entry
/// positions[n, t]. A token at position -1 is padding and goes nowhere, nor does one past the cache's end.
/// What the cache holds elsewhere stays.
struct CacheAppend {
  static constexpr std::string_view name = "cache_append";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x, positions };
  enum Out : std::size_t { cache };

  std::int64_t heads = 1;
  std::int64_t capacity = 0;  ///< tokens of a row that the cache holds

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("heads", heads);
    visit("capacity", capacity);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 2, 2);
    require_dtype("x", in[x], DType::f32);
    require_rank("x", in[x], 3);
    require_positions(in[positions], in[x].shape);
    const Shape& shape = in[x].shape;
    if (heads < 1 || shape[2] % heads != 0) {
      throw_misfit(shape.str() + ": the last dimension is no multiple of " + std::to_string(heads) +
                   " heads");
    }
    return {{DType::f32, {shape[0], heads, capacity, shape[2] / heads}}};
  }
};

/// tokens (N, S), with padding (-1) last in a row: the position of each, -1 of padding; and for each of
/// `queries` queries of a row the position of its last token.
struct SourcePositions {
  static constexpr std::string_view name = "source_positions";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { tokens };
  enum Out : std::size_t { positions, last };

  std::int64_t queries = 1;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("queries", queries);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_dtype("tokens", in[tokens], DType::i64);
    require_rank("tokens", in[tokens], 2);
    return {in[tokens], {DType::i64, {in[tokens].shape[0], queries}}};
  }
};

/// The queries that one thread of the CPU's team takes, out of N * heads * T in this order.
struct CachedQueries {
  std::int64_t begin, end;
  std::int64_t tokens;  ///< T
  std::int64_t heads;
  std::int64_t head_size;  ///< D
  std::int64_t capacity;
};

/// y = softmax(q k^T * scale) v for each query and head, over the entries 0 to last[n, t] of the caches; a
/// query whose `last` is -1 gives zeros. For a sequence that grows, `last` is the query's own position, whose
/// key is in the cache by then; for cross attention the last position of the source. With `rows` entry j of
/// row n is that of row rows[n, j] of the caches: texts that begin alike share what they have in common.
/// q (N, T, heads * D), last (N, T), keys and values (N, heads, capacity, D). Sums are taken in the order of
/// the entries, whatever the team: the bits of a row depend neither on threads nor on other rows.
struct CachedAttention {
  static constexpr std::string_view name = "cached_attention";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { q, last, keys, values, rows };
  enum Out : std::size_t { y };
  /// `rows` may be null.
  using Simd = void(const CachedAttention&, const CachedQueries&, const float* q, const std::int64_t* last,
                    const float* keys, const float* values, const std::int64_t* rows, float* y);

  double scale = 1;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("scale", scale);
  }

  Types infer(TypeSpan in) const {
    require_count(in, 4, 5);
    require_dtype("q", in[q], DType::f32);
    require_rank("q", in[q], 3);
    require_positions(in[last], in[q].shape);
    require_rank("keys", in[keys], 4);
    require_dtype("keys", in[keys], DType::f32);
    require_type("values", in[values], in[keys]);
    const Shape& cache = in[keys].shape;
    const Shape& queries = in[q].shape;
    if (cache[0] != queries[0] || cache[1] * cache[3] != queries[2]) {
      throw_misfit("queries " + queries.str() + " do not fit a cache " + cache.str());
    }
    if (in.size() > rows) require_type("rows", in[rows], {DType::i64, {cache[0], cache[2]}});
    return {in[q]};
  }

  /// As if each cache were full.
  double flops(TypeSpan in, TypeSpan) const {
    return 4 * static_cast<double>(in[q].shape.elements()) * static_cast<double>(in[keys].shape[2]);
  }
};

}  // namespace lockstep::kernels
