#pragma once

#include <utility>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/marked_kernel.h"
#include "kernels/tensor_cores.h"

/// Products on tensor cores: tiles of half types that a warp holds together, and sums in f32. All lanes of
/// the warp take part in each. Tiles come from shared memory in words of 8 elements, whose rows are `row`
/// words apart.
namespace lockstep::kernels {

/// Of 16 x 8 sums a lane has two columns of two rows.
struct SumTile {
  float at[4] = {};

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) % 32 / 4 + i / 2 * 8; }
  __device__ static int column(int i) { return static_cast<int>(threadIdx.x) % 4 * 2 + i % 2; }
};

/// 16 x 16 elements of the left factor.
struct LeftTile {
  std::uint32_t words[4];
};

/// 16 x 16 elements of the right factor: the left and the right 8 columns.
struct RightTile {
  std::uint32_t words[2][2];
};

/// Two neighbours in a word, each rounded once.
template <class Element>
__device__ std::uint32_t narrow_pair(float low, float high) {
  const Pack<Element, 2> pair{narrow<Element>(low), narrow<Element>(high)};
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

__device__ inline LeftTile load_left(const uint4* tile, int row) {
  LeftTile left;
  load_tile<false>(left.words, tile, row);
  return left;
}

/// The same from memory, where rows are `stride` elements apart: columns `column` to `column` + 15 of 16
/// rows; zeros behind the `rows` and `columns` that are there. Both counts of columns are even.
template <class Element>
__device__ LeftTile load_left(const Element* from, std::int64_t stride, std::int64_t rows,
                              std::int64_t columns, int column) {
  LeftTile left;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int r = SumTile::row(i % 2 * 2);
    const int c = column + SumTile::column(0) + i / 2 * 8;
    const bool is_there = r < rows && c < columns;
    left.words[i] = is_there ? *aligned_cast<const std::uint32_t>(from + r * stride + c) : 0;
  }
  return left;
}

/// Sums of one product as the left factor of the next: 16 columns, rounded to the half type.
template <class Element>
__device__ LeftTile narrow_left(const SumTile& left, const SumTile& right) {
  return {{narrow_pair<Element>(left.at[0], left.at[1]), narrow_pair<Element>(left.at[2], left.at[3]),
           narrow_pair<Element>(right.at[0], right.at[1]), narrow_pair<Element>(right.at[2], right.at[3])}};
}

/// A tile whose rows are the right factor's.
__device__ inline RightTile load_right(const uint4* tile, int row) {
  std::uint32_t words[4];
  load_tile<true>(words, tile, row);
  return {{{words[0], words[1]}, {words[2], words[3]}}};
}

/// A tile whose rows are the right factor's columns.
__device__ inline RightTile load_right_columns(const uint4* tile, int row) {
  std::uint32_t words[4];
  load_tile<false>(words, tile, row);
  return {{{words[0], words[2]}, {words[1], words[3]}}};
}

/// sums[0] and sums[1], of the left and the right 8 columns, += left right.
template <class Element>
__device__ void multiply(SumTile* sums, const LeftTile& left, const RightTile& right) {
  multiply_tiles<Element>(sums[0].at, left.words, right.words[0]);
  multiply_tiles<Element>(sums[1].at, left.words, right.words[1]);
}

/// As `cuda_kernel`.
template <class Run>
KernelPtr tensor_core_kernel(const KernelIo& io, Run run, std::size_t workspace = 0) {
  return marked_kernel<OnTensorCores>(io, std::move(run), workspace);
}

}  // namespace lockstep::kernels
