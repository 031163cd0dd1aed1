#include "comm/tcp/placement.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::comm {

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

}  // namespace lockstep::comm
