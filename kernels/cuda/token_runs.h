#pragma once

#include "kernels/cuda/portability.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/error.h"
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

/// Adds column `k` of `count` rows, all loaded before the first is added. `place`: of the row that each lane
/// of the warp knows, those from `lane` on are added.
template <int count, int lanes, class Rows>
__device__ void add_named_rows(const Rows& rows, std::int64_t dim, std::int64_t k, std::uint32_t place,
                               int lane, Floats<lanes>& total) {
  const float* row[count];
  LOCKSTEP_UNROLL
  for (int i = 0; i < count; ++i) row[i] = rows(__shfl_sync(whole_warp, place, lane + i), dim) + k;
  Floats<lanes> values[count];
  LOCKSTEP_UNROLL
  for (int i = 0; i < count; ++i) values[i] = k < dim ? load<lanes>(row[i]) : Floats<lanes>::all(0);
  LOCKSTEP_UNROLL
  for (int i = 0; i < count; ++i) add_to(total, values[i]);
}

/// Column `k` of the run that begins at a place of the order.
template <int lanes, class Rows, class Target>
__device__ void add_short_run(const Rows& rows, std::int64_t tokens, std::int64_t dim, const TokenKey* sorted,
                              std::int64_t begin, std::int64_t k, const Target& to) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  TokenKey key = key_at(sorted, tokens, begin + lane);
  const std::int64_t token = token_of(sorted[begin]);
  auto* const sum = to.row(begin, token, dim) + k;
  auto held = Floats<lanes>::all(0);
  if (Target::adds && k < dim) held = load<lanes>(sum);
  auto total = Floats<lanes>::all(0);
  unsigned others = 0;
  for (std::int64_t at = begin + warp; others == 0; at += warp) {
    others = __ballot_sync(whole_warp, token_of(key) != token);
    const int count = others == 0 ? warp : __ffs(static_cast<int>(others)) - 1;
    const std::uint32_t place = place_of(key);
    if (others == 0) key = key_at(sorted, tokens, at + lane);
    int done = 0;
    for (; done + 8 <= count; done += 8) add_named_rows<8>(rows, dim, k, place, done, total);
    if ((count & 4) != 0) add_named_rows<4>(rows, dim, k, place, done, total);
    done += count & 4;
    if ((count & 2) != 0) add_named_rows<2>(rows, dim, k, place, done, total);
    done += count & 2;
    if ((count & 1) != 0) add_named_rows<1>(rows, dim, k, place, done, total);
  }
  if (Target::adds) add_to(total, held);
  if (k < dim) store(sum, total);
}

constexpr int short_block = 256;  // at most
constexpr int places_of_a_block = 4;

/// blockIdx.x names some places of the order, blockIdx.y the columns. A run is added where it begins.
template <int lanes, class Rows, class Target>
__global__ void __launch_bounds__(short_block, 4)
    add_short_runs(Rows rows, std::int64_t tokens, std::int64_t dim, const TokenKey* sorted, Target to) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t k = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * lanes;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * places_of_a_block;
  const std::int64_t own = first + lane % places_of_a_block;
  const std::int64_t mark = (own + landmark - 1) / landmark * landmark;
  const TokenKey before = key_at(sorted, tokens, own - 1);
  const TokenKey key = key_at(sorted, tokens, own);
  const TokenKey behind = key_at(sorted, tokens, mark + landmark);
  const bool is_short = lane < places_of_a_block && key != no_row && token_of(before) != token_of(key) &&
                        token_of(behind) != token_of(key);
  for (unsigned left = __ballot_sync(whole_warp, is_short); left != 0; left &= left - 1) {
    const std::int64_t begin = first + __ffs(static_cast<int>(left)) - 1;
    add_short_run<lanes>(rows, tokens, dim, sorted, begin, k, to);
  }
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
      values[i] = at < in_batch && k < dim ? load<lanes>(rows(places[at], dim) + k) : Floats<lanes>::all(0);
    }
  }
  __device__ void write(Floats<lanes>* batch) const {
    LOCKSTEP_UNROLL
    for (int i = 0; i < count; ++i) batch[static_cast<int>(threadIdx.x) + i * run_block] = values[i];
  }
};

/// Adds the calling thread's column of a batch in shared memory. Behind `count` rows there are zeros, which
/// change no bits of a sum that began with +0.
__device__ inline void add_batch(const float* own_column, int count, float& total) {
  constexpr int at_once = 16;
  for (int row = 0; row < count; row += at_once) {
    float values[at_once];
    LOCKSTEP_UNROLL
    for (int i = 0; i < at_once; ++i) values[i] = own_column[(row + i) * slice];
    LOCKSTEP_UNROLL
    for (int i = 0; i < at_once; ++i) total += values[i];
  }
}

/// Where the run begins whose first landmark is at `mark`.
__device__ inline std::int64_t begin_of_run(const TokenKey* sorted, std::int64_t tokens, std::int64_t mark) {
  const int lane = static_cast<int>(threadIdx.x) % warp;
  const std::int64_t token = token_of(sorted[mark]);
  int places = 0;  // of the run, up to the landmark
  LOCKSTEP_UNROLL
  for (int back = 0; back < landmark; back += warp) {
    const TokenKey key = key_at(sorted, tokens, mark - back - lane);
    places += __popc(__ballot_sync(whole_warp, token_of(key) == token));
  }
  return mark + 1 - places;
}

/// blockIdx.x names some landmarks, blockIdx.y a slice of columns. A run is added where its first landmark
/// is. While the first warp adds a batch, all have the loads of the next one in flight.
template <int lanes, class Rows, class Target>
__global__ void __launch_bounds__(run_block, 3)
    add_long_runs(Rows rows, std::int64_t tokens, std::int64_t dim, const TokenKey* sorted, Target to) {
  STATIC_SHARED(Floats<lanes>, batch, batch_rows * slice / lanes);
  STATIC_SHARED(std::uint32_t, places, batch_rows);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * slice;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * landmarks_of_a_block;
  const std::int64_t own = (first + lane % landmarks_of_a_block) * landmark;
  const TokenKey before = key_at(sorted, tokens, own - landmark);
  const TokenKey at_mark = key_at(sorted, tokens, own);
  const TokenKey behind = key_at(sorted, tokens, own + landmark);
  const bool is_long = lane < landmarks_of_a_block && at_mark != no_row &&
                       token_of(before) != token_of(at_mark) && token_of(behind) == token_of(at_mark);
  for (unsigned left = __ballot_sync(whole_warp, is_long); left != 0; left &= left - 1) {
    const std::int64_t mark = (first + __ffs(static_cast<int>(left)) - 1) * landmark;
    const std::int64_t token = token_of(sorted[mark]);
    const std::int64_t begin = begin_of_run(sorted, tokens, mark);
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
      if (thread < slice) add_batch(&batch[0].at[0] + thread, count, total);
      count = next;
    }
    if (thread < slice && column + thread < dim) {
      auto* const sum = to.row(begin, token, dim) + column + thread;
      store(sum, Floats<1>{Target::adds ? total + widen(*sum) : total});
    }
  }
}

/// Before `add_runs`, when its kernel is prepared: a grid has no more slices.
inline void require_slices(std::string_view op, std::int64_t dim) {
  constexpr std::int64_t most_columns = 65535 * slice;
  if (dim <= most_columns) return;
  throw UsageError(std::string(op) + ": rows of " + std::to_string(dim) + " numbers; a GPU takes at most " +
                   std::to_string(most_columns));
}

/// Adds all runs. `lanes`: of a row, divide `dim`.
template <int lanes, class Rows, class Target>
void add_runs(cudaStream_t stream, const Rows& rows, std::int64_t tokens, std::int64_t dim,
              const TokenKey* sorted, const Target& to) {
  if (dim == 0) return;
  const std::int64_t columns = dim / lanes;
  const auto threads =
      static_cast<unsigned>(std::clamp<std::int64_t>(rounded_up(columns, warp), warp, short_block));
  launch(add_short_runs<lanes, Rows, Target>,
         dim3(blocks_for(tokens, places_of_a_block), blocks_for(columns, threads)), threads, 0, stream, rows,
         tokens, dim, sorted, to);
  if (tokens <= landmark) return;
  launch(add_long_runs<lanes, Rows, Target>,
         dim3(blocks_for(tokens, landmark * landmarks_of_a_block), blocks_for(dim, slice)), run_block, 0,
         stream, rows, tokens, dim, sorted, to);
}

}  // namespace lockstep::kernels
