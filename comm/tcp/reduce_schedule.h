#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/tcp/placement.h"

namespace lockstep::comm {

/// What one rank has to do in every exchange between nodes, by the placement alone: as the owner of a slice,
/// and as its node's proxy for owners elsewhere.
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
  std::vector<int> receivers;  ///< the other nodes' proxies, who take the sum of this rank's slice

  std::vector<int> owners;          ///< whose proxy this rank is
  std::vector<RankRange> subtrees;  ///< of this node, whose sums each of `owners` gets
  std::vector<ReductionTree> subtree_trees;
};

}  // namespace lockstep::comm
