#pragma once

#include <cstddef>
#include <span>

namespace lockstep::comm {

/// Sums `count` elements of all inputs in one fixed binary tree over their order, (0+1)+(2+3) for four and
/// (0+1)+2 for three (a power of two on the left), and writes the sum to every output. An output may be an
/// input. The bits do not depend on the instruction set or on how a range is cut.
/// At least one input and one output; at most 2^16 inputs.
void tree_sum(std::span<const float* const> inputs, std::span<float* const> outputs, std::size_t count);
void tree_sum(std::span<const double* const> inputs, std::span<double* const> outputs, std::size_t count);

}  // namespace lockstep::comm
