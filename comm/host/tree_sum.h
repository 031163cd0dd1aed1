#pragma once

#include <cstddef>
#include <span>

#include "comm/host/sum_tree.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Sums `count` elements of all inputs, one for each leaf of `tree`, and writes the sum to every output. An
/// output may be an input. The bits do not depend on the instruction set or on how a range is cut. At least
/// one input and one output; at most 2^16 inputs.
void tree_sum(const SumTree& tree, std::span<const float* const> inputs, std::span<float* const> outputs,
              std::size_t count);
void tree_sum(const SumTree& tree, std::span<const double* const> inputs, std::span<double* const> outputs,
              std::size_t count);
/// The same for `bytes` of f32 or f64.
void tree_sum(DType dtype, const SumTree& tree, std::span<const std::byte* const> inputs,
              std::span<std::byte* const> outputs, std::size_t bytes);

}  // namespace lockstep::comm
