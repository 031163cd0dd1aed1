#pragma once

#include "kernels/cuda/portability.h"

#include <cstdint>

/// Sums over many rows, which several blocks have made by chunks of rows: the step behind that adds them.
namespace lockstep::kernels {

constexpr int chunk_columns = 32;  // of a block: a warp reads 128 bytes in one piece
constexpr int chunk_depth = 32;    // threads that share the chunks of a column: one alone would wait for each

/// A column's sum, of sums[chunk][column], in an order that the number of chunks fixes. Called by all threads
/// of a block (chunk_columns, chunk_depth); the first row of them gets it. `width`: of a chunk's sums.
__device__ inline float sum_of_chunks(std::int64_t width, std::int64_t chunks, const float* sums,
                                      std::int64_t column) {
  STATIC_SHARED(float, parts, chunk_depth* chunk_columns);
  float total = 0;
  for (std::int64_t chunk = threadIdx.y; column < width && chunk < chunks; chunk += chunk_depth)
    total += sums[chunk * width + column];
  parts[threadIdx.y * chunk_columns + threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0) return 0;
  for (int other = 1; other < chunk_depth; ++other) total += parts[other * chunk_columns + threadIdx.x];
  return total;
}

}  // namespace lockstep::kernels
