#include "comm/reduce/reduction_tree.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace lockstep::comm {
namespace {

int middle(RankRange range) {
  const auto left = std::bit_floor(static_cast<unsigned>(range.size() - 1));
  return range.first + static_cast<int>(left);
}

RankRange left_of(RankRange range) {
  return {range.first, middle(range)};
}
RankRange right_of(RankRange range) {
  return {middle(range), range.end};
}

/// Lists the leaves of `range` in order, each with the merges that follow it.
void list_merges(RankRange range, std::span<const RankRange>& parts, std::vector<std::uint8_t>& merges) {
  if (parts.empty() || parts.front().first != range.first)
    throw std::invalid_argument("ReductionTree: ranks are missing");
  if (parts.front() == range) {
    parts = parts.subspan(1);
    merges.push_back(0);
    return;
  }
  if (range.size() == 1) throw std::invalid_argument("ReductionTree: a part is no whole subtree");
  list_merges(left_of(range), parts, merges);
  list_merges(right_of(range), parts, merges);
  ++merges.back();
}

void collect_subtrees(RankRange range, std::span<const int> members, std::vector<RankRange>& subtrees) {
  const auto first = std::ranges::lower_bound(members, range.first);
  const auto held = std::ranges::lower_bound(members, range.end) - first;
  if (held == 0) return;
  if (held == range.size()) return subtrees.push_back(range);
  collect_subtrees(left_of(range), members, subtrees);
  collect_subtrees(right_of(range), members, subtrees);
}

std::vector<RankRange> single_ranks(int ranks) {
  std::vector<RankRange> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back({rank, rank + 1});
  return parts;
}

}  // namespace

ReductionTree::ReductionTree(int ranks) : ReductionTree(ranks, single_ranks(ranks)) {}

ReductionTree::ReductionTree(int ranks, std::span<const RankRange> parts) {
  list_merges({0, ranks}, parts, merges_);
  if (!parts.empty()) throw std::invalid_argument("ReductionTree: more parts than ranks");
}

std::vector<RankRange> whole_subtrees(int ranks, std::span<const int> members) {
  std::vector<RankRange> subtrees;
  collect_subtrees({0, ranks}, members, subtrees);
  return subtrees;
}

}  // namespace lockstep::comm
