#pragma once

#include <string>
#include <vector>

#include "comm/store/client.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// What a rank tells all others before they connect.
struct PeerInfo {
  std::string node;  ///< equal on ranks that can share memory
  std::string host;
  int pid = 0;
  std::string address;  ///< where it listens for data connections
  int port = 0;
};

/// "rank 3 (pid 123 on gpu07)"
std::string name_of(int rank, const PeerInfo& peer);

/// What only ranks on one machine that reach each other's abstract sockets have in common: boot, network
/// namespace and user. `name` (LOCKSTEP_NODE), when not empty, splits or joins them by hand.
std::string node_hint(const std::string& name);

/// What every rank tells, by rank. CommError names those who did not come by the deadline.
std::vector<PeerInfo> exchange_peer_info(StoreClient& store, int rank, int ranks, const PeerInfo& mine,
                                         Deadline deadline);

}  // namespace lockstep::comm
