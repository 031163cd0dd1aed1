#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::comm {

inline constexpr std::size_t cache_line = 64;

/// Where slice `index` of `bytes` begins when `ranks` share them: on a cache line, so that no two ranks write
/// the same one. Slice `ranks` begins at the end.
inline std::size_t slice_begin(std::size_t bytes, int index, int ranks) {
  const std::size_t lines = (bytes + cache_line - 1) / cache_line;
  return std::min(bytes,
                  lines * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks) * cache_line);
}

}  // namespace lockstep::comm
