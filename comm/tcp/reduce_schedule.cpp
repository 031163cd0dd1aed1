#include "comm/tcp/reduce_schedule.h"

#include <algorithm>

namespace lockstep::comm {
namespace {

/// The operands of a slice's sum, in the order of ranks.
std::vector<RankRange> operands(const Placement& placement, int here) {
  std::vector<RankRange> ranges;
  for (const int rank : placement.members(here)) ranges.push_back({rank, rank + 1});
  for (int node = 0; node < placement.nodes(); ++node) {
    const auto& subtrees = placement.subtrees(node);
    if (node != here) ranges.insert(ranges.end(), subtrees.begin(), subtrees.end());
  }
  std::ranges::sort(ranges, {}, &RankRange::first);
  return ranges;
}

}  // namespace

ReduceSchedule::ReduceSchedule(const Placement& placement, int rank)
    : tree(1), subtrees(placement.subtrees(placement.node_of(rank))) {
  const int here = placement.node_of(rank);
  const auto leaves = operands(placement, here);
  tree = ReductionTree(placement.ranks(), leaves);
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const int node = placement.node_of(leaves[leaf].first);
    if (node == here) {
      local_leaves.push_back(leaf);
      continue;
    }
    const auto& parts = placement.subtrees(node);
    const auto index = std::ranges::find(parts, leaves[leaf]) - parts.begin();
    remote_parts.push_back({.proxy = placement.proxy(rank, node),
                            .index = static_cast<std::uint16_t>(index),
                            .ranks = leaves[leaf].size(),
                            .leaf = leaf});
  }
  for (int node = 0; node < placement.nodes(); ++node) {
    if (node != here) receivers.push_back(placement.proxy(rank, node));
  }
  for (int owner = 0; owner < placement.ranks(); ++owner) {
    if (placement.node_of(owner) != here && placement.proxy(owner, here) == rank) owners.push_back(owner);
  }
  for (const RankRange& subtree : subtrees) subtree_trees.emplace_back(subtree.size());
}

}  // namespace lockstep::comm
