#include "comm/tcp/node_traffic.h"

#include <algorithm>

#include "comm/tcp/chunks.h"

namespace lockstep::comm {
namespace {

/// Of one shard, in shards of `dtype`.
double partial_sums(const Placement& placement, int node, DType dtype) {
  double shards = 0;
  for (const RankRange& subtree : placement.subtrees(node)) {
    shards += static_cast<double>(size_of(travel_type(dtype, subtree.size()))) /
              static_cast<double>(size_of(dtype));
  }
  return shards;
}

}  // namespace

double sent_by_busiest_node(const Placement& placement, std::size_t bytes, DType dtype) {
  const double shard = static_cast<double>(bytes) / placement.ranks();
  double most = 0;
  for (int node = 0; node < placement.nodes(); ++node) {
    const auto members = static_cast<double>(placement.members(node).size());
    const double partials = (placement.ranks() - members) * partial_sums(placement, node, dtype);
    const double sums = members * (placement.nodes() - 1);
    most = std::max(most, shard * (partials + sums));
  }
  return most;
}

}  // namespace lockstep::comm
