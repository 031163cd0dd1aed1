#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace lockstep::comm
