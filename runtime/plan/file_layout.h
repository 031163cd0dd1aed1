#pragma once

#include <cstddef>

#include "kernels/layout.h"
#include "model/graph.h"

namespace lockstep::runtime {

/// A parameter, or its gradient or state, as files hold it: row-major, or with the outputs side by side,
/// whatever the shape of the inputs.
kernels::TensorDesc file_desc(const model::Value& value, bool transposed);

/// Whether its memory begins with the bytes that a file has of it, which are then copied as they are.
bool has_file_layout(const model::Value& value, bool transposed);

/// What the largest parameter takes in memory on its way between the layout of a file and that of its arena;
/// 0 where all lie as in files.
std::size_t conversion_bytes(const model::Graph& graph);

}  // namespace lockstep::runtime
