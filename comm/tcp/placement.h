#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/reduce/reduce.h"

namespace lockstep::comm {

/// Which rank is on which node, and the roles of ranks in an exchange between nodes. Every rank owns a slice
/// of each bucket: it receives the partial sums of all nodes, adds them and sends the sum back. On every
/// other node one rank, the proxy for that owner, sends the partial sums and receives the sum, so owners and
/// proxies exchange pairwise.
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

  /// The rank on `node` that is the proxy for `owner`, which is on another node.
  int proxy(int owner, int node) const;
  /// Ranks that `rank` exchanges with as an owner or as a proxy, ascending.
  std::vector<int> peers(int rank) const;

 private:
  int place_on_node(int rank) const;

  std::vector<int> node_of_;
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<RankRange>> subtrees_;
};

/// One rank's part in every exchange between nodes, derived from the placement alone: as the owner of a
/// slice, and as its node's proxy for owners on other nodes.
struct ReduceSchedule {
  /// A part of the sum that another node makes of this rank's slice.
  struct RemotePart {
    int proxy;            ///< the rank that sends it
    std::uint16_t index;  ///< among its node's subtrees
    int ranks;            ///< whose sum it is
    std::size_t leaf;     ///< of `tree`
  };

  ReduceSchedule(const Placement& placement, int rank);

  ReductionTree tree;  ///< of this rank's slice, over its node's single ranks and the other nodes' parts
  std::vector<std::size_t> local_leaves;  ///< of `tree`, by this node's ranks
  std::vector<RemotePart> remote_parts;
  std::vector<int> receivers;  ///< the other nodes' proxies, which receive the sum of this rank's slice

  std::vector<int> owners;          ///< whose proxy this rank is
  std::vector<RankRange> subtrees;  ///< of this node, whose sums each of `owners` gets
  std::vector<ReductionTree> subtree_trees;
};

}  // namespace lockstep::comm
