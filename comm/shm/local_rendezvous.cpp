#include "comm/shm/local_rendezvous.h"

#include <fmt/format.h>

#include <numeric>

#include "comm/shm/rendezvous_leader.h"
#include "comm/shm/rendezvous_peer.h"

namespace lockstep::comm {

std::string name_of(const LocalPeer& peer) {
  return fmt::format("rank {} (pid {})", peer.rank, peer.pid);
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

NodeMembers all_on_one_node(const World& world) {
  NodeMembers members{.ranks = std::vector<int>(static_cast<std::size_t>(world.size)),
                      .index = world.rank,
                      .meeting = fmt::format("lockstep-{}-{}", world.run_id, world.node_rank)};
  std::iota(members.ranks.begin(), members.ranks.end(), 0);
  return members;
}

LocalGroup meet_local_ranks(const NodeMembers& members, Deadline deadline) {
  return members.index == 0 ? RendezvousLeader(members).gather(deadline) : join_meeting(members, deadline);
}

}  // namespace lockstep::comm
