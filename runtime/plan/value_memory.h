#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/layout.h"
#include "model/graph.h"

namespace lockstep::runtime {

/// What kernels get of a value.
inline kernels::TensorDesc tensor_desc(const model::Value& value) {
  return {.dtype = value.type.dtype, .shape = value.type.shape, .layout = value.layout};
}

/// Size of a value in memory, with the padding of its layout.
inline std::int64_t allocated_elements(const model::Value& value) {
  return tensor_desc(value).layout_or_row_major().span();
}
inline std::size_t allocated_bytes(const model::Value& value) {
  return tensor_desc(value).bytes();
}

}  // namespace lockstep::runtime
