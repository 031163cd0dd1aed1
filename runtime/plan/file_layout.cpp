#include "runtime/plan/file_layout.h"

#include <algorithm>

#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {

kernels::TensorDesc file_desc(const model::Value& value, bool transposed) {
  const Shape& shape = value.type.shape;
  kernels::Layout layout = kernels::Layout::row_major(shape);
  if (transposed) {
    for (std::size_t axis = 1; axis < shape.rank(); ++axis) layout.strides[axis] *= shape[0];
    layout.strides[0] = 1;
  }
  return {.dtype = value.type.dtype, .shape = shape, .layout = layout};
}

bool has_file_layout(const model::Value& value, bool transposed) {
  const kernels::TensorDesc here = tensor_desc(value);
  if (kernels::has_layout(file_desc(value, transposed).layout_or_row_major(), here)) return true;
  // Behind its rows there may be zeros, which no file has.
  return !transposed && here.layout_or_row_major().lies_row_major(here.shape);
}

std::size_t conversion_bytes(const model::Graph& graph) {
  std::size_t most = 0;
  for (const model::Parameter& parameter : graph.parameters()) {
    for (const model::ValueId id : {parameter.value, parameter.gradient}) {
      if (id == model::no_value || has_file_layout(graph.value(id), parameter.file_transposed)) continue;
      most = std::max(most, file_desc(graph.value(id), parameter.file_transposed).bytes());
    }
  }
  return most;
}

}  // namespace lockstep::runtime
