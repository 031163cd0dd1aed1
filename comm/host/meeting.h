#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/host/segment.h"
#include "comm/world.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// Another rank of this node, and the socket that closes when it dies.
struct LocalPeer {
  int rank;
  pid_t pid;
  UniqueFd socket;
};

/// "rank 1 (pid 123)"
std::string name_of(const LocalPeer& peer);

/// "rank 1" or "ranks 1, 3"
std::string name_of_ranks(const std::vector<int>& ranks);

/// What comes of the meeting: the shared memory, and sockets: rank 0 holds one to every peer, the others hold
/// one to rank 0.
struct LocalGroup {
  Segment segment;
  std::vector<LocalPeer> peers;
};

/// Brings the ranks of one node together. Rank 0 listens on an abstract Unix socket whose name holds the run
/// id, and hands its memfd to every peer of the same user. A nonce that the peer reads through the mapping
/// proves that the memory is shared. CommError names the ranks that did not come.
LocalGroup meet_local_ranks(const World& world, Deadline deadline);

}  // namespace lockstep::comm
