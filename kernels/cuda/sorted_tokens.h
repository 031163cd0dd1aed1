#pragma once

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

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
__device__ inline std::int64_t place_of(TokenKey key) {
  return static_cast<std::int64_t>(key & 0xFFFFFFFFU);
}

/// Whether a run of equal tokens begins at this place of the order.
__device__ inline bool begins_run(const TokenKey* sorted, std::int64_t at) {
  return sorted[at] != no_row && (at == 0 || token_of(sorted[at - 1]) != token_of(sorted[at]));
}

constexpr int sort_block = 256;
constexpr std::int64_t sort_tile = 2 * sort_block;  // keys that a block sorts by itself

__device__ inline void order(TokenKey& low, TokenKey& high, bool ascending) {
  if ((low > high) != ascending) return;
  const TokenKey kept = low;
  low = high;
  high = kept;
}

/// Bitonic sort (Batcher 1968): the network's steps of all stages within a tile, or of one greater stage
/// those that stay within it. `stage`: the length of the sequences that are sorted behind it.
__device__ inline void sort_in_tile(TokenKey* keys, std::int64_t first, std::int64_t stage,
                                    std::int64_t distance) {
  for (; distance > 0; distance /= 2) {
    __syncthreads();
    const std::int64_t low = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
    order(keys[low], keys[low + distance], ((first + low) & stage) == 0);
  }
}

/// `tokens(n)`: the n-th of `count`.
template <class Tokens>
__global__ void sort_tiles(Tokens tokens, std::int64_t count, std::int64_t vocab, TokenKey* sorted) {
  STATIC_SHARED(TokenKey, keys, sort_tile);
  const std::int64_t first = blockIdx.x * sort_tile;
  for (std::int64_t i = threadIdx.x; i < sort_tile; i += sort_block) {
    const std::int64_t n = first + i;
    keys[i] = n < count ? key_of(tokens(n), vocab, n) : no_row;
  }
  for (std::int64_t stage = 2; stage <= sort_tile; stage *= 2) sort_in_tile(keys, first, stage, stage / 2);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < sort_tile; i += sort_block) sorted[first + i] = keys[i];
}

static __global__ void order_apart(std::int64_t stage, std::int64_t distance, TokenKey* sorted) {
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * sort_block + threadIdx.x;
  const std::int64_t low = pair / distance * 2 * distance + pair % distance;
  order(sorted[low], sorted[low + distance], (low & stage) == 0);
}

static __global__ void finish_stage(std::int64_t stage, TokenKey* sorted) {
  STATIC_SHARED(TokenKey, keys, sort_tile);
  const std::int64_t first = blockIdx.x * sort_tile;
  for (std::int64_t i = threadIdx.x; i < sort_tile; i += sort_block) keys[i] = sorted[first + i];
  sort_in_tile(keys, first, stage, sort_tile / 2);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < sort_tile; i += sort_block) sorted[first + i] = keys[i];
}

/// Sorts the tokens of a batch on a stream.
class TokenSort {
 public:
  explicit TokenSort(std::int64_t tokens)
      : count_(tokens),
        padded_(static_cast<std::int64_t>(
            std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(tokens, sort_tile))))) {}

  std::size_t workspace_bytes() const { return static_cast<std::size_t>(padded_) * sizeof(TokenKey); }

  template <class Tokens>
  void launch_on(cudaStream_t stream, Tokens tokens, std::int64_t vocab, TokenKey* sorted) const {
    const auto blocks = static_cast<unsigned>(padded_ / sort_tile);
    launch(sort_tiles<Tokens>, blocks, sort_block, 0, stream, tokens, count_, vocab, sorted);
    for (std::int64_t stage = 2 * sort_tile; stage <= padded_; stage *= 2) {
      for (std::int64_t distance = stage / 2; distance >= sort_tile; distance /= 2) {
        launch(order_apart, blocks, sort_block, 0, stream, stage, distance, sorted);
      }
      launch(finish_stage, blocks, sort_block, 0, stream, stage, sorted);
    }
  }

 private:
  std::int64_t count_;
  std::int64_t padded_;  ///< a power of two
};

}  // namespace lockstep::kernels
