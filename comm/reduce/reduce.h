#pragma once

#include <cstddef>
#include <span>

#include "comm/reduce/reduction_tree.h"
#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Numbers that are added: f64, or f32, bf16 and f16 in any mixture.
struct ReduceInput {
  const std::byte* values;
  DType dtype;
};

/// Sums `count` numbers (aligned) of all operands, one for each leaf of `tree`, and writes the sum as `dtype`
/// to every output. In f64 where `dtype` is that, else in f32, and rounded once at the end. An output may be
/// a operand of its own type. The bits do not depend on the instruction set or on how a range is cut. At
/// least one operand and one output; at most 2^16 operands.
void reduce(DType dtype, const ReductionTree& tree, std::span<const ReduceInput> operands,
            std::span<std::byte* const> outputs, std::size_t count);

}  // namespace lockstep::comm
