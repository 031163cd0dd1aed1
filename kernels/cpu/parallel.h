#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "kernels/base/alignment.h"

namespace lockstep::kernels {

/// Floats of a cache line: parts of a thread that are multiples of it share no line with other threads.
constexpr std::int64_t cache_line_floats = cache_line / sizeof(float);

/// Numbers from row to row: an odd number of lines, so that rows lie in different sets of a cache.
constexpr std::int64_t odd_lines(std::int64_t floats) {
  return (parts_of(floats, cache_line_floats) | 1) * cache_line_floats;
}

/// Work below this many elements (or multiply-adds) is not worth waking a team for.
constexpr std::int64_t parallel_grain = 1 << 15;

/// `body(begin, end)` on the team, each thread one contiguous part of [0, n), its bounds multiples of
/// `align`; on the calling thread alone if `work` is small.
template <class Body>
void parallel_ranges(std::int64_t n, std::int64_t work, std::int64_t align, const Body& body) {
  if (work < 2 * parallel_grain || omp_get_max_threads() == 1) {
    body(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t part = parts_of(n, team * align) * align;
    const std::int64_t begin = std::min(n, omp_get_thread_num() * part);
    const std::int64_t end = std::min(n, begin + part);
    if (begin < end) body(begin, end);
  }
}

}  // namespace lockstep::kernels
