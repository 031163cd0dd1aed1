#pragma once

#include <cstddef>
#include <span>

#include "comm/host/sum_tree.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Sums `bytes` of f32 or f64 (aligned) of all inputs, one for each leaf of `tree`, and writes the sum to
/// every output. An output may be an input. The bits do not depend on the instruction set or on how a range
/// is cut. At least one input and one output; at most 2^16 inputs.
void tree_sum(DType dtype, const SumTree& tree, std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t bytes);

}  // namespace lockstep::comm
