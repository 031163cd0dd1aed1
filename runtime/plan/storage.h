#pragma once

#include <cstddef>
#include <cstdint>

#include "model/graph.h"

namespace lockstep::runtime {

/// Slices of the arenas and slots start on a cache line of 64 bytes, which is also the widest vector.
constexpr std::size_t round_up_to_line(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

constexpr std::int64_t elements_of_a_line(DType dtype) {
  return static_cast<std::int64_t>(64 / size_of(dtype));
}

/// What a kernel is told of the value.
inline kernels::TensorDesc stored(const model::Value& value) {
  return {.dtype = value.type.dtype, .shape = value.type.shape, .layout = value.layout};
}

/// What the value takes in memory, with the padding of its blocked layout.
inline std::int64_t stored_elements(const model::Value& value) {
  return stored(value).layout_or_row_major().span();
}
inline std::size_t stored_bytes(const model::Value& value) {
  return stored(value).bytes();
}

}  // namespace lockstep::runtime
