#pragma once

#include <cstddef>

#include "model/graph.h"

namespace lockstep::runtime {

/// Slices of the arenas and slots start on a cache line of 64 bytes, which is also the widest vector.
constexpr std::size_t round_up_to_line(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// What the value takes in memory, in bytes, with the padding of its blocked layout.
inline std::size_t stored_bytes(const model::Value& value) {
  return kernels::TensorDesc{.dtype = value.type.dtype, .shape = value.type.shape, .layout = value.layout}
      .bytes();
}

}  // namespace lockstep::runtime
