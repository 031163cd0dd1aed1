#include "comm/tcp/placement.h"

#include <algorithm>
#include <map>
#include <set>

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

Placement::Placement(const std::vector<int>& nodes) {
  std::map<int, int> number;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const auto [at, is_new] = number.try_emplace(nodes[rank], static_cast<int>(members_.size()));
    if (is_new) members_.emplace_back();
    node_of_.push_back(at->second);
    members_[static_cast<std::size_t>(at->second)].push_back(static_cast<int>(rank));
  }
  for (const auto& members : members_) subtrees_.push_back(whole_subtrees(ranks(), members));
}

int Placement::place_on_node(int rank) const {
  const auto& all = members(node_of(rank));
  return static_cast<int>(std::ranges::lower_bound(all, rank) - all.begin());
}

int Placement::proxy(int owner, int node) const {
  const auto& candidates = members(node);
  return candidates[static_cast<std::size_t>(place_on_node(owner)) % candidates.size()];
}

std::vector<int> Placement::peers(int rank) const {
  std::set<int> peers;
  for (int node = 0; node < nodes(); ++node) {
    if (node == node_of(rank)) continue;
    peers.insert(proxy(rank, node));
    for (const int owner : members(node)) {
      if (proxy(owner, node_of(rank)) == rank) peers.insert(owner);
    }
  }
  return {peers.begin(), peers.end()};
}

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
