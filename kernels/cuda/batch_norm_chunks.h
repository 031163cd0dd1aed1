#pragma once

#include <algorithm>

#include "kernels/cuda/batch_norm.h"
#include "kernels/cuda/channel_walk.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/grid.h"

/// How the passes of batch normalisation that sum cut channels into chunks, and join what chunks have:
/// partials[chunk][i][channel], two numbers of each.
namespace lockstep::kernels {

inline constexpr int summing_block = 256;

/// How a channel is cut, by the shape alone.
struct Chunks {
  std::int64_t channels, size, count, of_channel;

  /// Of the chunk, as far as it lies among the first `of` elements of the channel.
  __device__ double elements(std::int64_t chunk, std::int64_t of) const {
    const std::int64_t rest = of - chunk * size;
    return static_cast<double>(rest < 0 ? 0 : rest < size ? rest : size);
  }
  std::size_t workspace() const { return static_cast<std::size_t>(2 * count * channels) * sizeof(float); }
};

/// For packs of channels side by side: a row is an element of each channel.
struct RowSums {
  WalkGrid grid;
  Chunks chunks;

  template <class Rows>
  explicit RowSums(const Rows& rows)
      : grid(rows.rows, rows.columns, most_summed_columns, 1024),  // enough for a great GPU
        chunks{rows.columns * Rows::channels, grid.walk.chunk, grid.blocks.y, rows.rows} {}
};

/// For all else: a block sums for one channel, or, where the channels of a pixel lie side by side, for as
/// many as a warp has threads, which then read neighbours. blockIdx.x names the channels, blockIdx.y the
/// chunk of their elements.
template <bool side_by_side, class Index>
struct Share {
  Index channel, first, step;

  __device__ Share()
      : channel(static_cast<Index>(side_by_side ? blockIdx.x * warp + threadIdx.x % warp : blockIdx.x)),
        first(static_cast<Index>(side_by_side ? threadIdx.x / warp : threadIdx.x)),
        step(side_by_side ? summing_block / warp : summing_block) {}
};

/// Over the threads that have the calling thread's channel, in a fixed order; all threads call it.
template <bool side_by_side>
__device__ float sum_of_share(float value) {
  if constexpr (side_by_side) {
    STATIC_SHARED(float, parts, summing_block);
    parts[threadIdx.x] = value;
    __syncthreads();
    float total = 0;
    for (unsigned at = threadIdx.x % warp; at < summing_block; at += warp) total += parts[at];
    __syncthreads();  // the next call writes there again
    return total;
  } else {
    return sum<summing_block>(value);
  }
}

/// Blocks for each chunk, and the chunks. A thread takes `width` elements at a time, which follow one
/// another.
struct ShareSums {
  bool side_by_side;
  int width;
  dim3 blocks;
  Chunks chunks;

  template <class Index>
  ShareSums(int of_pack, const Images<Index>& images)
      : side_by_side(images.lanes > 1), width(!side_by_side && images.pixels % of_pack == 0 ? of_pack : 1) {
    constexpr std::int64_t wanted_blocks = 2048;  // enough for a great GPU
    constexpr std::int64_t most_chunks = 65535;
    blocks.x = side_by_side ? blocks_for(images.channels, warp) : static_cast<unsigned>(images.channels);
    const std::int64_t wanted = std::clamp<std::int64_t>(wanted_blocks / blocks.x, 1, most_chunks);
    const std::int64_t least = side_by_side ? summing_block : 4 * width * summing_block;
    const std::int64_t size =
        std::max(least, rounded_up(parts_of<std::int64_t>(images.count, wanted), width));
    chunks = {images.channels, size, parts_of<std::int64_t>(images.count, size), images.count};
    blocks.y = static_cast<unsigned>(chunks.count);
  }
};

/// `sum(addresses, stream)` fills the workspace, and join(chunks, addresses, stream) reads it.
template <class Sum, class Join>
KernelPtr chunks_kernel(const KernelIo& io, const Chunks& chunks, Sum sum, Join join) {
  return cuda_kernel(
      io,
      [=](const Addresses& a, cudaStream_t stream) {
        sum(a, stream);
        join(chunks, a, stream);
      },
      chunks.workspace());
}

inline constexpr int joined_channels = 8;  // of a block: 32 bytes of f32 side by side
inline constexpr int joining_depth = 64;   // threads to a channel

inline unsigned joining_blocks(std::int64_t channels) {
  return blocks_for(channels, joined_channels);
}
inline dim3 joining_threads() {
  return {joined_channels, joining_depth};
}

/// threadIdx.x is the channel among the block's; its threads share the chunks.
__device__ inline std::int64_t joined_channel() {
  return static_cast<std::int64_t>(blockIdx.x) * joined_channels + threadIdx.x;
}
/// Calls use(chunk, load(chunk)) for each of the calling thread's chunks.
template <class Load, class Use>
__device__ void for_chunks(std::int64_t count, Load load, Use use) {
  for_rows<4>(threadIdx.y, count, joining_depth, load, use);
}

/// Over the threads that have the calling thread's channel, in a fixed order; all threads call it.
__device__ inline double sum_of_joined(double value) {
  constexpr int of_warp = warp / joined_channels;
  STATIC_SHARED(double, parts, joining_depth / of_warp * joined_channels);
  for (int lane_mask = joined_channels; lane_mask < warp; lane_mask *= 2) value += exchange(value, lane_mask);
  if (threadIdx.y % of_warp == 0) parts[threadIdx.y / of_warp * joined_channels + threadIdx.x] = value;
  __syncthreads();
  double total = 0;
  for (int other = 0; other < joining_depth / of_warp; ++other)
    total += parts[other * joined_channels + threadIdx.x];
  __syncthreads();  // the next call writes there again
  return total;
}

}  // namespace lockstep::kernels
