#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/dtype.h"

namespace lockstep::comm {

/// Ranks first, first + 1, … end - 1.
struct RankRange {
  int first = 0;
  int end = 0;

  int size() const { return end - first; }
  bool operator==(const RankRange&) const = default;
};

/// The one binary tree in which all sums over ranks are taken: the left subtree holds the greatest power of
/// two below the number of ranks, (0+1)+2 for three. It depends on the number of ranks alone, not on where
/// they are.
class ReductionTree {
 public:
  /// Over single ranks.
  explicit ReductionTree(int ranks);
  /// Over partial sums: `parts` are whole subtrees in order that together hold all ranks.
  ReductionTree(int ranks, std::span<const RankRange> parts);

  std::size_t leaves() const { return merges_.size(); }
  /// How often the last two partial sums merge once leaf `leaf` is there.
  int merges_after(std::size_t leaf) const { return merges_[leaf]; }

 private:
  std::vector<std::uint8_t> merges_;
};

/// The largest subtrees of the tree over `ranks` that hold ranks of `members` (ascending) only.
std::vector<RankRange> whole_subtrees(int ranks, std::span<const int> members);

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
