#pragma once

#include <cstddef>

#include "kernels/base/division.h"

namespace lockstep {

/// Bytes of a cache line, and of the widest vector: tensors, slices of arenas and parts of a thread begin at
/// its multiples.
inline constexpr std::size_t cache_line = 64;

/// Scratch memory of kernels begins at its multiples: cublasLtMatmul wants it (NVIDIA's reference of cuBLAS).
inline constexpr std::size_t workspace_alignment = 256;

/// `bytes` rounded up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) {
  return rounded_up(bytes, cache_line);
}

}  // namespace lockstep
