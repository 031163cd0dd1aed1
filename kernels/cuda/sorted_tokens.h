#pragma once

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/grid.h"
#include "kernels/embedding.h"

namespace lockstep::kernels {

/// A token and its place in the batch: in the order of these numbers lie runs of equal tokens, each in the
/// order of the batch. What is no row of the table comes last.
using TokenKey = std::uint64_t;
constexpr TokenKey no_row = ~TokenKey{0};

__device__ inline TokenKey key_of(std::int64_t token, std::int64_t vocab, std::int64_t place) {
  return token >= 0 && token < vocab ? static_cast<TokenKey>(token) << 32 | static_cast<TokenKey>(place)
                                     : no_row;
}

__device__ inline std::int64_t token_of(TokenKey key) {
  return static_cast<std::int64_t>(key >> 32);
}
__device__ inline std::uint32_t place_of(TokenKey key) {
  return static_cast<std::uint32_t>(key);
}

/// Whether a run of equal tokens begins at this place of the order.
__device__ inline bool begins_run(const TokenKey* sorted, std::int64_t at) {
  return sorted[at] != no_row && (at == 0 || token_of(sorted[at - 1]) != token_of(sorted[at]));
}

constexpr int sort_block = 256;
constexpr int sort_tile = 2 * sort_block;  // keys that a block sorts by itself

__device__ inline void order(TokenKey& low, TokenKey& high, bool ascending) {
  if ((low > high) != ascending) return;
  const TokenKey kept = low;
  low = high;
  high = kept;
}

/// Bitonic sort (Batcher 1968) of tiles. `tokens(n)`: the n-th of `count`.
template <class Tokens>
__global__ void sort_tiles(Tokens tokens, std::int64_t count, std::int64_t vocab, TokenKey* sorted) {
  STATIC_SHARED(TokenKey, keys, sort_tile);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * sort_tile;
  for (int i = static_cast<int>(threadIdx.x); i < sort_tile; i += sort_block) {
    const std::int64_t n = first + i;
    keys[i] = n < count ? key_of(tokens(n), vocab, n) : no_row;
  }
  const int pair = static_cast<int>(threadIdx.x);
  for (int stage = 2; stage <= sort_tile; stage *= 2) {
    for (int distance = stage / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int low = 2 * pair - (pair & (distance - 1));
      order(keys[low], keys[low + distance], (low & stage) == 0);
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < sort_tile; i += sort_block) sorted[first + i] = keys[i];
}

constexpr int merge_ways = 8;

/// Sequences of `length` keys (a power of two; the last may be shorter), each sorted, become sequences of
/// `merge_ways` times as many. So many threads find a key's place: each counts by binary search the keys of
/// one sequence that come before it. Only those that are no row are equal: an earlier sequence's come first.
static __global__ void merge_sequences(std::int64_t length, std::int64_t count, const TokenKey* from,
                                       TokenKey* to) {
  const auto way = static_cast<int>(threadIdx.x) % merge_ways;
  const std::int64_t at = first_item() / merge_ways;
  const std::int64_t merged = at & ~(length * merge_ways - 1);
  const std::int64_t own = at & ~(length - 1);
  const std::int64_t begin = merged + way * length;
  const TokenKey key = from[at];
  const std::int64_t behind = count - begin;
  const auto keys = static_cast<int>(behind < 0 ? 0 : behind < length ? behind : length);
  int before = begin == own ? static_cast<int>(at - own) : 0;
  for (int step = begin == own ? 0 : static_cast<int>(length); step > 0; step /= 2) {
    const int next = before + step;
    if (next > keys) continue;
    const TokenKey other = from[begin + next - 1];
    if (other < key || (other == key && begin < own)) before = next;
  }
  for (int lane_mask = 1; lane_mask < merge_ways; lane_mask *= 2) before += exchange(before, lane_mask);
  if (way == 0) to[merged + before] = key;
}

/// Sorts the tokens of a batch on a stream: tiles, then sequences of them, from one half of the workspace to
/// the other.
class TokenSort {
 public:
  explicit TokenSort(std::int64_t tokens) : count_(tokens), padded_(rounded_up(tokens, sort_tile)) {}

  std::size_t workspace_bytes() const { return 2 * static_cast<std::size_t>(padded_) * sizeof(TokenKey); }

  /// The sorted keys, in `workspace`.
  template <class Tokens>
  const TokenKey* launch_on(cudaStream_t stream, const Tokens& tokens, std::int64_t vocab,
                            TokenKey* workspace) const {
    TokenKey* sorted = workspace;
    TokenKey* other = workspace + padded_;
    launch(sort_tiles<Tokens>, blocks_for(padded_, sort_tile), sort_block, 0, stream, tokens, count_, vocab,
           sorted);
    for (std::int64_t length = sort_tile; length < padded_; length *= merge_ways) {
      launch(merge_sequences, blocks_for(padded_ * merge_ways, sort_block), sort_block, 0, stream, length,
             padded_, static_cast<const TokenKey*>(sorted), other);
      std::swap(sorted, other);
    }
    return sorted;
  }

 private:
  std::int64_t count_;
  std::int64_t padded_;  ///< to whole tiles
};

}  // namespace lockstep::kernels
