#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::comm {

/// Where slice `index` of `count` elements begins when `ranks` share them: on a cache line, so that no two
/// ranks write the same one. Slice `ranks` begins at the end.
inline std::size_t slice_begin(std::size_t count, std::size_t element_bytes, int index, int ranks) {
  constexpr std::size_t cache_line = 64;
  const std::size_t per_line = cache_line / element_bytes;
  const std::size_t lines = (count + per_line - 1) / per_line;
  return std::min(count,
                  lines * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks) * per_line);
}

}  // namespace lockstep::comm
