#pragma once

#include <cstddef>

namespace lockstep {

/// Bytes of a cache line, and of the widest vector: tensors, slices of arenas and parts of a thread begin at
/// its multiples.
inline constexpr std::size_t cache_line = 64;

/// `bytes` rounded up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + cache_line - 1) / cache_line * cache_line;
}

}  // namespace lockstep
