#pragma once

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/elements.h"
#include "kernels/cuda/grid.h"
#include "kernels/cuda/sorted_tokens.h"

/// Rows of numbers (tokens, dim) added over runs of equal tokens, each column of a run in the order of the
/// batch by one thread, so that the bits are those of a loop over the batch. `rows(place, dim)` is a row's
/// address, `Target::row(begin, token, dim)` where the sum of the run that begins at a place of the order
/// goes; with `Target::adds` it is added to what is there.
namespace lockstep::kernels {

constexpr unsigned whole_warp = 0xffffffffU;

/// A run is long that holds two neighbouring multiples of so many places: its rows come through shared
/// memory. Others have less than twice as many rows.
constexpr int landmark = 64;

__device__ inline TokenKey key_at(const TokenKey* sorted, std::int64_t tokens, std::int64_t at) {
  return at >= 0 && at < tokens ? sorted[at] : no_row;
}

template <int lanes>
__device__ void add_to(Floats<lanes>& sum, const Floats<lanes>& values) {
  for (int lane = 0; lane < lanes; ++lane) sum.at[lane] += values.at[lane];
}

/// blockIdx.x names the place of a run's first key, blockIdx.y the columns. What has no row in a batch of
/// loads adds zeros, which change no bits of a sum that began with +0.
template <int lanes, class Rows, class Target>
__global__ void add_short_runs(Rows rows, std::int64_t tokens, std::int64_t dim, const TokenKey* sorted,
                               Target to) {
  constexpr int in_flight = 8;
  const std::int64_t begin = blockIdx.x;
  const std::int64_t mark = (begin + landmark - 1) / landmark * landmark;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  TokenKey key = key_at(sorted, tokens, begin + lane);
  const TokenKey first = sorted[begin];
  const std::int64_t token = token_of(first);
  const TokenKey before = key_at(sorted, tokens, begin - 1);
  const TokenKey behind = key_at(sorted, tokens, mark + landmark);
  if (first == no_row || token_of(before) == token || token_of(behind) == token) return;

  const std::int64_t k = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes;
  const bool is_column = k < dim;
  auto* const sum = to.row(begin, token, dim) + k;
  auto held = Floats<lanes>::all(0);
  if (Target::adds && is_column) held = load<lanes>(sum);
  auto total = Floats<lanes>::all(0);
  std::int64_t at = begin;
  unsigned others = 0;
  while (others == 0) {
    others = __ballot_sync(whole_warp, token_of(key) != token);
    const int count = others == 0 ? warp : __ffs(static_cast<int>(others)) - 1;
    const std::uint32_t place = place_of(key);
    at += warp;
    if (others == 0) key = key_at(sorted, tokens, at + lane);
    for (int done = 0; done < count; done += in_flight) {
      Floats<lanes> values[in_flight];
      LOCKSTEP_UNROLL
      for (int i = 0; i < in_flight; ++i) {
        const std::uint32_t row = __shfl_sync(whole_warp, place, done + i);
        values[i] = done + i < count && is_column ? load<lanes>(rows(row, dim) + k) : Floats<lanes>::all(0);
      }
      LOCKSTEP_UNROLL
      for (int i = 0; i < in_flight; ++i) add_to(total, values[i]);
    }
  }
  if (Target::adds) add_to(total, held);
  if (is_column) store(sum, total);
}

/// How a block takes a long run: batches of rows, of which it adds a slice of columns.
constexpr int run_block = 256;
constexpr int batch_rows = run_block;
constexpr int slice = warp;
constexpr int landmarks_of_a_block = 8;

/// A thread's part of a batch, in registers while the block adds the batch before.
template <int lanes>
struct BatchPart {
  static constexpr int threads_of_a_row = slice / lanes;
  static constexpr int rows_at_once = run_block / threads_of_a_row;
  static constexpr int count = batch_rows / rows_at_once;

  Floats<lanes> values[count];

  /// Of what `places` name; rows behind `in_batch` are zeros.
  template <class Rows>
  __device__ void read(const Rows& rows, const std::uint32_t* places, int in_batch, std::int64_t column,
                       std::int64_t dim) {
    const int row = static_cast<int>(threadIdx.x) / threads_of_a_row;
    const std::int64_t k = column + static_cast<int>(threadIdx.x) % threads_of_a_row * lanes;
    LOCKSTEP_UNROLL
    for (int i = 0; i < count; ++i) {
      const int at = row + i * rows_at_once;
      values[i] =
          at < in_batch && k < dim ? load<lanes>(rows(places[at], dim) + k) : Floats<lanes>::all(0);
    }
  }
  __device__ void write(Floats<lanes>* batch) const {
    LOCKSTEP_UNROLL
    for (int i = 0; i < count; ++i) batch[static_cast<int>(threadIdx.x) + i * run_block] = values[i];
  }
};

/// blockIdx.x names some landmarks, blockIdx.y a slice of columns. A run is added where its first landmark
/// is. While the first warp adds a batch, all have the loads of the next one in flight.
template <int lanes, class Rows, class Target>
__global__ void __launch_bounds__(run_block)
    add_long_runs(Rows rows, std::int64_t tokens, std::int64_t dim, const TokenKey* sorted, Target to) {
  STATIC_SHARED(Floats<lanes>, batch, batch_rows * slice / lanes);
  STATIC_SHARED(std::uint32_t, places, batch_rows);
  constexpr int adds_at_once = 32;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * slice;
  const std::int64_t first_mark = static_cast<std::int64_t>(blockIdx.x) * landmarks_of_a_block;

  const std::int64_t own = (first_mark + lane) * landmark;
  const TokenKey before = key_at(sorted, tokens, own - landmark);
  const TokenKey at_mark = key_at(sorted, tokens, own);
  const TokenKey behind = key_at(sorted, tokens, own + landmark);
  const bool is_long = lane < landmarks_of_a_block && at_mark != no_row &&
                       token_of(before) != token_of(at_mark) && token_of(behind) == token_of(at_mark);
  for (unsigned left = __ballot_sync(whole_warp, is_long); left != 0; left &= left - 1) {
    const std::int64_t mark = (first_mark + __ffs(static_cast<int>(left)) - 1) * landmark;
    const std::int64_t token = token_of(sorted[mark]);
    int back = 0;  // places from the run's begin to its first landmark, both among them
    LOCKSTEP_UNROLL
    for (int at = 0; at < landmark; at += warp) {
      const TokenKey key = key_at(sorted, tokens, mark - at - lane);
      back += __popc(__ballot_sync(whole_warp, token_of(key) == token));
    }
    const std::int64_t begin = mark + 1 - back;

    std::int64_t at = begin + thread;
    TokenKey key = key_at(sorted, tokens, at);
    places[thread] = place_of(key);
    int count = __syncthreads_count(token_of(key) == token);
    BatchPart<lanes> part;
    part.read(rows, places, count, column, dim);
    key = key_at(sorted, tokens, at += batch_rows);
    float total = 0;
    while (count > 0) {
      __syncthreads();  // the places have been read, and the batch before
      part.write(batch);
      places[thread] = place_of(key);
      const int next = __syncthreads_count(token_of(key) == token);
      if (next > 0) {
        part.read(rows, places, next, column, dim);
        key = key_at(sorted, tokens, at += batch_rows);
      }
      if (thread < slice) {
        for (int row = 0; row < count; row += adds_at_once) {
          LOCKSTEP_UNROLL
          for (int i = 0; i < adds_at_once; ++i) {
            const int element = (row + i) * slice + thread;
            total += batch[element / lanes].at[element % lanes];
          }
        }
      }
      count = next;
    }
    if (thread < slice && column + thread < dim) {
      auto* const sum = to.row(begin, token, dim) + column + thread;
      store(sum, Floats<1>{Target::adds ? total + widen(*sum) : total});
    }
  }
}

/// Adds all runs. `lanes`: of a row, divide `dim`.
template <int lanes, class Rows, class Target>
void add_runs(cudaStream_t stream, const Rows& rows, std::int64_t tokens, std::int64_t dim,
              const TokenKey* sorted, const Target& to) {
  constexpr std::int64_t most_threads = 256;
  const std::int64_t columns = dim / lanes;
  const auto threads =
      static_cast<unsigned>(std::clamp<std::int64_t>(rounded_up(columns, warp), warp, most_threads));
  launch(add_short_runs<lanes, Rows, Target>,
         dim3(static_cast<unsigned>(tokens), blocks_for(columns, threads)), threads, 0, stream, rows, tokens,
         dim, sorted, to);
  if (tokens <= landmark) return;
  launch(add_long_runs<lanes, Rows, Target>,
         dim3(blocks_for(tokens, landmark * landmarks_of_a_block), blocks_for(dim, slice)), run_block, 0,
         stream, rows, tokens, dim, sorted, to);
}

}  // namespace lockstep::kernels
