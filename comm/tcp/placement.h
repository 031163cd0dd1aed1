#pragma once

#include <vector>

#include "comm/reduce/reduction_tree.h"

namespace lockstep::comm {

/// Which rank is on which node, and who does what in an exchange between them. Every rank owns a slice of
/// each bucket: it gets the partial sums of all nodes, adds and sends the sum back. On every other node one
/// rank (the proxy for that owner) makes the partial sums and takes the sum, so owners and proxies talk
/// pairwise.
class Placement {
 public:
  /// `nodes[r]` names rank r's node; equal numbers are one node.
  explicit Placement(const std::vector<int>& nodes);

  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  /// Ranks of a node, ascending; nodes are numbered by their lowest rank.
  const std::vector<int>& members(int node) const { return members_[static_cast<std::size_t>(node)]; }
  /// What a node sums before it sends: the largest whole subtrees on it, ascending.
  const std::vector<RankRange>& subtrees(int node) const { return subtrees_[static_cast<std::size_t>(node)]; }

  /// The rank on `node` that deals with `owner`, which is on another node.
  int proxy(int owner, int node) const;
  /// Ranks that `rank` deals with as an owner or as a proxy, ascending.
  std::vector<int> peers(int rank) const;

 private:
  int place_on_node(int rank) const;

  std::vector<int> node_of_;
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<RankRange>> subtrees_;
};

}  // namespace lockstep::comm
