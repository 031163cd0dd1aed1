#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/division.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/portability.h"

/// A walk down the rows of a matrix of packs, in which a column belongs to the same channels in every row. A
/// thread keeps its column, so that numbers of channels stay in its registers.
namespace lockstep::kernels {

/// Calls use(row, load(row)) for every `step`-th row from `row` to before `end`, with `together` loads in
/// flight.
template <int together, class Load, class Use>
__device__ void for_rows(std::int64_t row, std::int64_t end, std::int64_t step, Load load, Use use) {
  for (; row + (together - 1) * step < end; row += together * step) {
    decltype(load(row)) loaded[together];
    LOCKSTEP_UNROLL
    for (int i = 0; i < together; ++i) loaded[i] = load(row + i * step);
    LOCKSTEP_UNROLL
    for (int i = 0; i < together; ++i) use(row + i * step, loaded[i]);
  }
  for (; row < end; row += step) use(row, load(row));
}

/// blockIdx.x names the columns and blockIdx.y the chunk of rows; threadIdx.x is the column among them,
/// threadIdx.y the first of the thread's rows.
struct RowWalk {
  std::int64_t rows, columns, chunk;

  __device__ std::int64_t column() const {
    return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  }
  __device__ std::int64_t begin() const { return blockIdx.y * chunk; }
  /// Of the chunk, as far as it lies among the first `of` rows.
  __device__ std::int64_t end(std::int64_t of) const { return of - begin() < chunk ? of : begin() + chunk; }
  /// As for_rows, over the calling thread's rows.
  template <int together, class Load, class Use>
  __device__ void run(std::int64_t end, Load load, Use use) const {
    for_rows<together>(begin() + threadIdx.y, end, blockDim.y, load, use);
  }
};

inline constexpr int walking_block = 256;
/// Of a multiprocessor at least, by the tensors that a kernel reads. So many have enough loads in flight, and
/// leave the compiler registers to keep all of a thread's before it computes.
constexpr int walking_blocks(int operands) {
  return operands == 1 ? 4 : 3;
}

/// A walk, and its blocks and threads.
struct WalkGrid {
  RowWalk walk;
  dim3 blocks, threads;

  /// About `wanted` blocks, each of at most `most_columns` columns; fewer where a thread would have so few
  /// rows that its channels' numbers, or its sums, are not worth their way.
  WalkGrid(std::int64_t rows, std::int64_t columns, std::int64_t most_columns, std::int64_t wanted) {
    constexpr std::int64_t least_turns = 8;
    const std::int64_t strips = parts_of(columns, most_columns);
    const std::int64_t side = parts_of(columns, strips);
    const std::int64_t depth = walking_block / side;
    const std::int64_t chunks = std::max<std::int64_t>(1, wanted / strips);
    const std::int64_t turns = std::max(least_turns, rounded_up(parts_of(rows, chunks * depth), 4));
    walk = {rows, columns, turns * depth};
    blocks = {static_cast<unsigned>(parts_of(columns, side)),
              static_cast<unsigned>(parts_of(rows, walk.chunk))};
    threads = {static_cast<unsigned>(side), static_cast<unsigned>(depth)};
  }
};

/// Columns of a block that sums: with more, a block would have more channels than threads.
inline constexpr int most_summed_columns = 32;

/// The calling thread as one of a block that sums: each channel of its columns is one thread's.
__device__ inline unsigned thread_of_block() {
  return threadIdx.y * blockDim.x + threadIdx.x;
}

/// Which channel the calling thread gets of `sum_over_rows`, or -1.
template <int width>
__device__ std::int64_t summed_channel(const RowWalk& walk) {
  const unsigned channels = blockDim.x * width;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * channels + thread_of_block();
  return thread_of_block() < channels && channel < walk.columns * width ? channel : -1;
}

/// Over the rows of the block, in their order; all threads call it.
template <int width>
__device__ float sum_over_rows(const Floats<width>& mine) {
  constexpr unsigned stride = walking_block + warp / width;  // so that no two lanes of a warp meet in a bank
  STATIC_SHARED(float, parts, width* stride);
  const unsigned thread = thread_of_block();
  LOCKSTEP_UNROLL
  for (unsigned lane = 0; lane < width; ++lane) parts[lane * stride + thread] = mine.at[lane];
  __syncthreads();
  float total = 0;
  if (thread < blockDim.x * width) {
    const float* const of_channel = parts + thread % width * stride + thread / width;
    for (unsigned row = 0; row < blockDim.y; ++row) total += of_channel[row * blockDim.x];
  }
  __syncthreads();  // the next call writes there again
  return total;
}

}  // namespace lockstep::kernels
