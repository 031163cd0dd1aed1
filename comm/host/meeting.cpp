#include "comm/host/meeting.h"

#include <fmt/format.h>

#include "comm/host/meeting_guest.h"
#include "comm/host/meeting_host.h"

namespace lockstep::comm {

std::string name_of(const LocalPeer& peer) {
  return fmt::format("rank {} (pid {})", peer.rank, peer.pid);
}

std::string name_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

LocalGroup meet_local_ranks(const World& world, Deadline deadline) {
  const std::string socket_name = fmt::format("lockstep-{}-{}", world.run_id, world.node_rank);
  LocalGroup group = world.rank == 0 ? MeetingHost(world, socket_name).gather(deadline)
                                     : join_meeting(world, socket_name, deadline);
  return group;
}

}  // namespace lockstep::comm
