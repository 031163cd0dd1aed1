#pragma once

#include <utility>

#include "kernels/attention.h"
#include "kernels/cpu/simd/lanes.h"
#include "kernels/cpu/simd/random_words.h"

/// What both directions of attention are made of: products of tiles, packed operands, the probabilities of a
/// row. Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;
using Tile = AttentionTile;

constexpr float infinity = __builtin_inff();

[[gnu::always_inline]] inline std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// The pairs of a tile that count: key <= query + diagonal, both counted from the tile's first.
struct Band {
  std::int64_t diagonal;

  /// Keys that the queries below `end` look at, of `keys`.
  std::int64_t keys_of(std::int64_t end, std::int64_t keys) const {
    const std::int64_t last = end + diagonal;
    return last < 0 ? 0 : least(last, keys);
  }
  /// The first query that looks at `key`.
  std::int64_t first_query(std::int64_t key) const { return key > diagonal ? key - diagonal : 0; }
};

/// c = a b, or c += a b. The columns are whole registers. a's element (row, k) is at row * a_stride + k or,
/// transposed, at k * a_stride + row.
struct Product {
  const float* a;
  const float* b;
  float* c;
  std::int64_t b_row, c_row;
  std::int64_t rows, columns, depth;
  bool accumulates;
};

/// What of a product a band leaves: rows are queries and columns keys; rows are queries, summed over keys;
/// rows are keys, summed over queries.
enum class Sums { of_pairs, over_keys, over_queries };

template <int rows, int vectors, bool transposes, int a_stride>
[[gnu::always_inline]] inline void block(const Product& p, std::int64_t row, std::int64_t column,
                                         std::int64_t first, std::int64_t end) {
  Floats sums[rows][vectors] = {};
  const float* a = p.a + (transposes ? row + first * a_stride : row * a_stride + first);
  const float* b = p.b + first * p.b_row + column;
  for (std::int64_t k = first; k < end; ++k) {
    Floats factors[vectors];
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) factors[i] = L::load(b + i * native_width);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const float factor = transposes ? a[r] : a[r * a_stride];
#pragma GCC unroll 4
      for (int i = 0; i < vectors; ++i) sums[r][i] += factor * factors[i];
    }
    a += transposes ? a_stride : 1;
    b += p.b_row;
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    float* const c = p.c + (row + r) * p.c_row + column;
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) {
      const Floats sum = sums[r][i];
      L::store(c + i * native_width, p.accumulates ? L::load(c + i * native_width) + sum : sum);
    }
  }
}

/// Rows from `row` on, as many at once as registers hold, and then the rest of them.
template <int rows, Sums kind, bool transposes, int a_stride>
void blocks(const Product& p, const Band& band, std::int64_t row) {
  for (; row + rows <= p.rows; row += rows) {
    const std::int64_t keys = kind == Sums::over_queries
                                  ? 0
                                  : band.keys_of(row + rows, kind == Sums::of_pairs ? p.columns : p.depth);
    const std::int64_t columns = kind == Sums::of_pairs ? keys : p.columns;
    const std::int64_t first = kind == Sums::over_queries ? least(band.first_query(row), p.depth) : 0;
    const std::int64_t end = kind == Sums::over_keys ? keys : p.depth;
    std::int64_t column = 0;
    for (; column + native_width < columns; column += 2 * native_width)
      block<rows, 2, transposes, a_stride>(p, row, column, first, end);
    if (column < columns) block<rows, 1, transposes, a_stride>(p, row, column, first, end);
  }
  if constexpr (rows > 1) {
    if (row < p.rows) blocks<rows - 1, kind, transposes, a_stride>(p, band, row);
  }
}

template <Sums kind, bool transposes, std::int64_t a_stride>
void multiply(const Product& p, const Band& band) {
  constexpr int most_rows = native_width == 16 ? 12 : 6;  // whose sums stay in registers, two vectors of each
  blocks<most_rows, kind, transposes, static_cast<int>(a_stride)>(p, band, 0);
}

/// The products of the tiles: scores from operands that are packed by columns, and what is summed from
/// probabilities.
void multiply_pairs(const Product& p, const Band& band) {
  multiply<Sums::of_pairs, true, Tile::queries>(p, band);
}
void sum_over_keys(const Product& p, const Band& band) {
  multiply<Sums::over_keys, false, Tile::row>(p, band);
}

/// Rows of `columns` numbers times `scale`, with zeros up to `stride`.
template <class Element>
void pack_rows(const Element* from, std::int64_t row, std::int64_t rows, std::int64_t columns, float scale,
               float* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const Element* const in = from + r * row;
    float* const out = to + r * stride;
    std::int64_t c = 0;
    for (; c + native_width <= columns; c += native_width) L::store(out + c, L::load(in + c) * scale);
    for (; c < columns; ++c) out[c] = load(in + c) * scale;
    for (; c < stride; ++c) out[c] = 0;
  }
}

/// Swaps the halves of neighbouring blocks of `step` rows and columns: a stage of a transposition.
template <int step, std::size_t... lane>
[[gnu::always_inline]] inline void swap_blocks(Floats* rows, std::index_sequence<lane...>) {
  constexpr unsigned width = native_width;
  constexpr L::Words from_lower{((lane & step) == 0 ? lane : lane - step + width)...};
  constexpr L::Words from_upper{((lane & step) == 0 ? lane + step : lane + width)...};
#pragma GCC unroll 16
  for (int r = 0; r < native_width; ++r) {
    if ((r & step) != 0) continue;
    const Floats a = rows[r];
    const Floats b = rows[r + step];
    rows[r] = __builtin_shuffle(a, b, from_lower);
    rows[r + step] = __builtin_shuffle(a, b, from_upper);
  }
}

template <int step>
[[gnu::always_inline]] inline void transpose(Floats* rows) {
  if constexpr (step > 0) {
    swap_blocks<step>(rows, std::make_index_sequence<native_width>());
    transpose<step / 2>(rows);
  }
}

/// out[r] = the lanes of rows[r], combined: for as many rows at once as a register has lanes.
template <class Combine>
void combine_lanes(const Floats* rows, std::int64_t count, float* out, Combine combine) {
  for (std::int64_t r = 0; r < count; r += native_width) {
    Floats square[native_width];
    for (int i = 0; i < native_width; ++i) square[i] = rows[r + i];
    transpose<native_width / 2>(square);
    for (int i = 1; i < native_width; ++i) square[0] = combine(square[0], square[i]);
    L::store(out + r, square[0]);
  }
}

inline Floats added(Floats a, Floats b) {
  return a + b;
}

/// to[column][row] = the number at (row, column) times `scale`; rows that are not there, up to a multiple of
/// 16, are zeros.
template <std::int64_t stride, class Element>
void pack_columns(const Element* from, std::int64_t row, std::int64_t rows, std::int64_t columns, float scale,
                  float* to) {
  const std::int64_t padded = Tile::padded(rows);
  std::int64_t r = 0;
  for (; r + native_width <= rows; r += native_width) {
    std::int64_t c = 0;
    for (; c + native_width <= columns; c += native_width) {
      Floats square[native_width];
#pragma GCC unroll 16
      for (int i = 0; i < native_width; ++i) square[i] = L::load(from + (r + i) * row + c) * scale;
      transpose<native_width / 2>(square);
#pragma GCC unroll 16
      for (int i = 0; i < native_width; ++i) L::store(to + (c + i) * stride + r, square[i]);
    }
    for (; c < columns; ++c) {
      for (int i = 0; i < native_width; ++i) to[c * stride + r + i] = load(from + (r + i) * row + c) * scale;
    }
  }
  for (; r < padded; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      to[c * stride + r] = r < rows ? load(from + r * row + c) * scale : 0.0F;
  }
}

/// Rows of a packed tile to where they belong.
template <class Element>
void store_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, Element* to,
                std::int64_t row) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t c = 0;
    for (; c + native_width <= columns; c += native_width)
      L::store(to + r * row + c, L::load(from + r * stride + c));
    for (; c < columns; ++c) store(to + r * row + c, from[r * stride + c]);
  }
}

/// What is added to the scores of a tile of keys: minus infinity where nobody may look.
inline void fill_mask(const std::int64_t* tokens, std::int64_t keys, float* masks) {
  for (std::int64_t c = 0; c < keys; ++c) masks[c] = tokens[c] == -1 ? -infinity : 0.0F;
}
inline void mask(float* scores, std::int64_t count, const float* masks) {
  for (std::int64_t c = 0; c < count; c += native_width)
    L::store(scores + c, L::load(scores + c) + L::load(masks + c));
}

/// The first key that `query` sees of its document; one behind it where it sees none.
[[gnu::always_inline]] inline std::int64_t first_seen(const AttentionHead& head, std::int64_t query) {
  return query - head.positions[query];
}
/// The least of these, of `queries` queries; 0 where a row is one document.
inline std::int64_t first_seen_of(const AttentionHead& head, std::int64_t query, std::int64_t queries) {
  if (head.positions == nullptr) return 0;
  std::int64_t key = query + queries;
  for (std::int64_t r = 0; r < queries; ++r) key = least(key, first_seen(head, query + r));
  return key < 0 ? 0 : key;
}
/// Minus infinity for the first `hidden` of `count` scores.
inline void hide(float* scores, std::int64_t count, std::int64_t hidden) {
  const std::int64_t end = least(hidden, count);
  for (std::int64_t c = 0; c < end; ++c) scores[c] = -infinity;
}

/// Minus infinity behind the first `count` scores, up to a whole register.
inline void end_row(float* scores, std::int64_t count) {
  for (std::int64_t c = count; c < count + 16; c += native_width) L::store(scores + c, L::all(-infinity));
}

/// Scores to e^(score - maximum), of a row that has an end; behind it zeros as far as a product reads.
/// `maximum` is finite, or plus infinity. Gives their sum, lane by lane.
inline Floats exponentials(float* scores, std::int64_t count, float maximum) {
  const std::int64_t end = Tile::padded(count);
  Floats sum{};
  for (std::int64_t c = 0; c < end; c += native_width) {
    float* const at = scores + c;
#pragma omp simd
    for (int i = 0; i < native_width; ++i) at[i] = Math::exp_or_zero(at[i] - maximum);
    sum += L::load(at);
  }
  for (std::int64_t c = end; c < end + 16; c += native_width) L::store(scores + c, Floats{});
  return sum;
}

/// The factors of the probabilities of a query from `key` on, a tile of them: 0, or 1 / (1 - p).
[[gnu::flatten]] inline void drop_factors(const Attention& op, const Philox& random, std::int64_t query,
                                          std::int64_t key, float* factors) {
  std::uint32_t words[Tile::keys];
  fill_words<Tile::keys / 4>(random, dropout_block(query, key / 4), words);
  const std::uint32_t threshold = op.dropout().threshold();
  const float scale = op.dropout().scale();
#pragma omp simd
  for (std::int64_t c = 0; c < Tile::keys; ++c) factors[c] = words[c] < threshold ? 0.0F : scale;
}

}  // namespace
}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
