#pragma once

#include <type_traits>

#include "kernels/attention.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "kernels/cuda/elements.h"
#include "kernels/kernel.h"

/// What the kernels of attention are made of: a block of threads takes a tile of rows of one head, and walks
/// over tiles of the other side. Sums over a head's columns go chunk by chunk, so that shared memory does not
/// grow with them.
namespace lockstep::kernels {

struct AttentionTiles {
  static constexpr int rows = 32;  ///< of a tile, queries or keys
  static constexpr int threads = 128;
  static constexpr int chunk = 64;       ///< columns of a head that are in shared memory at a time
  static constexpr int row = chunk + 1;  ///< from row to row there: other banks
  static constexpr int score_row = rows + 1;
};

/// The head of a block, and where its operands are, in elements.
struct CudaHead {
  std::int64_t queries, keys, heads, dim;
  std::int64_t tiles;  ///< of a head: a block for each
  std::int64_t q_row, k_row, v_row;
  std::int64_t q_column, k_column, v_column;
  float scale;
  int causal;

  /// A block for each `tile` of `rows`; the functions below that are told a tile's rows are told these.
  CudaHead(const Attention& op, const AttentionSize& s, std::int64_t rows, int tile = AttentionTiles::rows)
      : queries(s.queries),
        keys(s.keys),
        heads(s.heads),
        dim(s.dim),
        tiles(parts_of(rows, tile)),
        q_row(s.parts[0].row),
        k_row(s.parts[1].row),
        v_row(s.parts[2].row),
        q_column(s.parts[0].column),
        k_column(s.parts[1].column),
        v_column(s.parts[2].column),
        scale(static_cast<float>(op.scale)),
        causal(op.causal ? 1 : 0) {}

  /// The first row of the block's tile.
  template <int tile = AttentionTiles::rows>
  __device__ std::int64_t first_row() const {
    return blockIdx.x % tiles * tile;
  }
  __device__ std::int64_t sample() const { return blockIdx.x / tiles / heads; }
  __device__ std::int64_t head() const { return blockIdx.x / tiles % heads; }
  __device__ std::int64_t q_at(std::int64_t query) const {
    return (sample() * queries + query) * q_row + q_column + head() * dim;
  }
  __device__ std::int64_t k_at(std::int64_t key) const {
    return (sample() * keys + key) * k_row + k_column + head() * dim;
  }
  __device__ std::int64_t v_at(std::int64_t key) const {
    return (sample() * keys + key) * v_row + v_column + head() * dim;
  }
  __device__ std::int64_t y_at(std::int64_t query) const {
    return ((sample() * queries + query) * heads + head()) * dim;
  }
  /// Of a number for each query: logsumexp, and the row sums of backward.
  __device__ std::int64_t row_at(std::int64_t query) const { return blockIdx.x / tiles * queries + query; }

  /// Behind the last query of the tile at `query`.
  template <int tile = AttentionTiles::rows>
  __device__ std::int64_t end_of_queries(std::int64_t query) const {
    const std::int64_t end = query + tile;
    return end < queries ? end : queries;
  }
  /// The first tile of keys that no query of the tile at `query` sees, in keys.
  template <int tile = AttentionTiles::rows>
  __device__ std::int64_t end_of_keys(std::int64_t query) const {
    const std::int64_t end = query + tile;
    return causal != 0 && end < keys ? end : keys;
  }
};

/// What hides keys beside `causal`; null where it hides none.
struct CudaMask {
  const std::int64_t* tokens;     ///< of the keys
  const std::int64_t* positions;  ///< of the queries in their documents

  /// The first key that the query sees of its document; one behind it where it sees none.
  __device__ std::int64_t first_seen(const CudaHead& h, std::int64_t query) const {
    return query - positions[h.sample() * h.queries + query];
  }

  /// The first tile of keys that a query of the tile at `query` sees, in keys; the same for all threads.
  template <int tile = AttentionTiles::rows>
  __device__ std::int64_t begin_of_keys(const CudaHead& h, std::int64_t query) const {
    if (positions == nullptr) return 0;
    const std::int64_t end = h.end_of_queries<tile>(query);
    std::int64_t key = end;
    for (std::int64_t at = query; at < end; ++at) {
      const std::int64_t first = first_seen(h, at);
      key = first < key ? first : key;
    }
    return key < 0 ? 0 : key / AttentionTiles::rows * AttentionTiles::rows;
  }
};

/// Whether the query sees the key.
__device__ inline bool is_seen(const CudaHead& h, const CudaMask& mask, std::int64_t query,
                               std::int64_t key) {
  if (query >= h.queries || key >= h.keys || (h.causal != 0 && key > query)) return false;
  if (mask.positions != nullptr && key < mask.first_seen(h, query)) return false;
  return mask.tokens == nullptr || mask.tokens[h.sample() * h.keys + key] != -1;
}

/// One of four random words by a number that is not known before: an array would lie in memory.
__device__ inline std::uint32_t word_of(const PhiloxCounter& four, int at) {
  const std::uint32_t low = at % 2 == 0 ? four[0] : four[1];
  const std::uint32_t high = at % 2 == 0 ? four[2] : four[3];
  return at < 2 ? low : high;
}

/// What dropout multiplies a probability by; the words are those of the head.
__device__ inline float drop_factor(const Dropout& dropout, const Philox& words, std::int64_t query,
                                    std::int64_t key) {
  const PhiloxCounter four = words.block(dropout_block(query, key / 4));
  return word_of(four, static_cast<int>(key % 4)) < dropout.threshold() ? 0.0F : dropout.scale();
}

/// `state` is null without dropout.
__device__ inline Philox words_of_head(const Dropout& dropout, const CudaHead& h, const StepState* state) {
  if (state == nullptr) return {0, 0};
  return attention_random(dropout, *state, state->first_sample + h.sample() * state->sample_stride, h.head());
}

/// A chunk of columns of a tile's rows to shared memory, times `scale`; what is not there is 0. `from`: the
/// first row's first column, of which `count` rows are there.
template <class Element>
__device__ void load_chunk(const Element* from, std::int64_t row, std::int64_t count, std::int64_t column,
                           std::int64_t dim, float scale, float* to) {
  using Tiles = AttentionTiles;
  for (int at = static_cast<int>(threadIdx.x); at < Tiles::rows * Tiles::chunk; at += Tiles::threads) {
    const int r = at / Tiles::chunk;
    const int c = at % Tiles::chunk;
    const bool is_there = r < count && column + c < dim;
    to[r * Tiles::row + c] = is_there ? widen(from[r * row + column + c]) * scale : 0.0F;
  }
}

/// A thread's part of a tile of pairs: 4 rows and 2 columns.
struct PairPart {
  float at[4][2] = {};

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / 16 * 4 + i; }
  __device__ static int column(int j) { return static_cast<int>(threadIdx.x) % 16 + 16 * j; }

  /// += a b^T over a chunk; a's rows are the part's rows, b's its columns.
  __device__ void add(const float* a, const float* b) {
    using Tiles = AttentionTiles;
    for (int k = 0; k < Tiles::chunk; ++k) {
      const float right[2] = {b[column(0) * Tiles::row + k], b[column(1) * Tiles::row + k]};
      for (int i = 0; i < 4; ++i) {
        const float left = a[row(i) * Tiles::row + k];
        for (int j = 0; j < 2; ++j) at[i][j] += left * right[j];
      }
    }
  }
};

/// `visit(chunk)` for chunks 0, 1, ...: constants, so that an array by chunk stays in registers.
template <int chunks, int chunk = 0, class Visit>
__device__ void for_each_chunk(Visit visit) {
  if constexpr (chunk < chunks) {
    visit(std::integral_constant<int, chunk>());
    for_each_chunk<chunks, chunk + 1>(visit);
  }
}

/// A thread's part of sums for the rows of a tile: 4 rows, and of each chunk 4 columns.
template <int chunks>
struct SumPart {
  float at[chunks][4][4] = {};

  __device__ static int row(int i) { return PairPart::row(i); }
  __device__ static int column(int j) { return PairPart::column(j); }

  /// += p b: of pairs (row, k) in shared memory, or with `transposes` (k, row), and rows k of b's chunk.
  template <bool transposes>
  __device__ void add(int chunk, const float* pairs, const float* b) {
    using Tiles = AttentionTiles;
    for (int k = 0; k < Tiles::rows; ++k) {
      float right[4];
      for (int j = 0; j < 4; ++j) right[j] = b[k * Tiles::row + column(j)];
      for (int i = 0; i < 4; ++i) {
        const float left =
            transposes ? pairs[k * Tiles::score_row + row(i)] : pairs[row(i) * Tiles::score_row + k];
        for (int j = 0; j < 4; ++j) at[chunk][i][j] += left * right[j];
      }
    }
  }

  /// Its numbers, times `scale`, to `to`, the first row's first column; `count` rows are there.
  template <class Element>
  __device__ void write(Element* to, std::int64_t stride, std::int64_t count, std::int64_t dim,
                        float scale) const {
    for_each_chunk<chunks>([&](auto chunk) {
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
          const int c = chunk * AttentionTiles::chunk + column(j);
          if (row(i) < count && c < dim) to[row(i) * stride + c] = narrow<Element>(at[chunk][i][j] * scale);
        }
      }
    });
  }
};

/// Whole tensors.
template <class Element>
struct AttentionInputs {
  const Element *q, *k, *v;
  CudaMask mask;
  const StepState* state;  ///< null without dropout
};

/// Of an op whose input `q` is the first of these.
template <class Element>
AttentionInputs<Element> inputs_of(const Attention& op, const AttentionSize& s, const Addresses& a,
                                   std::size_t q) {
  return {.q = a.in<Element>(q + s.parts[0].tensor),
          .k = a.in<Element>(q + s.parts[1].tensor),
          .v = a.in<Element>(q + s.parts[2].tensor),
          .mask = {.tokens = op.masked ? a.in<std::int64_t>(q + op.tokens()) : nullptr,
                   .positions = op.documents ? a.in<std::int64_t>(q + op.positions()) : nullptr},
          .state = op.p > 0 ? a.in<StepState>(q + op.state()) : nullptr};
}

/// What backward has beside them of the queries.
template <class Element>
struct AttentionGradientInputs {
  const Element* dy;
  const float* logsumexp;
  const float* row_sums;  ///< of dy * y
};

/// A block for each tile of each head.
inline unsigned blocks_of(const CudaHead& h, const AttentionSize& s) {
  return static_cast<unsigned>(h.tiles * s.samples * s.heads);
}

/// `make.operator()<chunks>()` for heads of `dim` columns. UsageError for more than 256.
template <class Make>
KernelPtr for_chunks(std::int64_t dim, Make make) {
  if (dim <= AttentionTiles::chunk) return make.template operator()<1>();
  if (dim <= 2 * AttentionTiles::chunk) return make.template operator()<2>();
  if (dim <= 4 * AttentionTiles::chunk) return make.template operator()<4>();
  throw UsageError("attention: heads of " + std::to_string(dim) +
                   " columns; on GPUs they have at most 256: take more heads");
}

}  // namespace lockstep::kernels
