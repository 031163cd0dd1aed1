#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/polling.h"
#include "comm/shm/local_socket.h"
#include "comm/shm/segment.h"
#include "comm/world/world.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// The ranks of one node and this one's place among them. Index i of the segment's lines and arenas is rank
/// `ranks[i]`; index 0 leads.
struct NodeMembers {
  std::vector<int> ranks;  ///< ascending
  int index = 0;
  std::string socket_name;    ///< of the abstract socket, the same on all members and nowhere else
  std::string run_id = {};    ///< for messages
  std::int64_t start_ns = 0;  ///< World's; members with another are a second start

  int size() const { return static_cast<int>(ranks.size()); }
  int rank() const { return rank_at(index); }
  int rank_at(int at) const { return ranks[static_cast<std::size_t>(at)]; }
  bool has_index(int at) const { return at >= 0 && at < size(); }
};

/// The name of the abstract socket of a node in one start of a run. It has the user in it, since users may
/// choose the same run id, address and port.
std::string local_socket_name(std::string_view run_id, std::string_view start, int node);

/// All ranks of a world that has one node only.
NodeMembers all_on_one_node(const World& world);

/// Another rank of this node, and the socket that closes when it dies.
struct LocalPeer {
  int rank;
  pid_t pid;
  UniqueFd socket;
};

/// What a member says first.
LocalMessage hello_of(const NodeMembers& members);

/// "rank 1 (pid 123)"
std::string name_of(int rank, pid_t pid);

/// "rank 1 did not join the rendezvous in time: ..."
std::string absence_of(const std::vector<int>& ranks);

/// "the rendezvous socket @... is held by user 1001 (pid 123): ..."
std::string held_by_other_user(const NodeMembers& members, const LocalCredentials& holder);

/// The result of the rendezvous: the shared memory, and sockets. The leader holds one to every peer, the
/// others hold one to the leader.
struct LocalGroup {
  Segment segment;
  std::vector<LocalPeer> peers;
  UniqueFd listener = {};  ///< the leader's: while it is open nobody else leads, and a second start finds out
  std::vector<UniqueFd> newcomers =
      {};  ///< the leader's: connected and not yet heard when the group was whole
};

/// Brings the ranks of one node together. The leader listens on an abstract Unix socket and hands its memfd
/// to every peer of the same user. A nonce that the peer reads through the mapping proves that the memory is
/// shared. CommError names the ranks that did not join, UsageError the process that is this rank already.
/// What `look` throws ends it for all who have come.
LocalGroup open_local_group(const NodeMembers& members, Deadline deadline, const Look& look = {});

}  // namespace lockstep::comm
