#pragma once

#include <vector>

#include "comm/net/authenticated_listener.h"
#include "comm/tcp/link.h"
#include "comm/tcp/peer_exchange.h"
#include "comm/tcp/placement.h"

namespace lockstep::comm {

/// A proved data connection to each of `rank`'s peers, in their order. The higher rank connects, the lower
/// admits. CommError names the peer that could not be reached, or did not come.
std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<PeerInfo>& peers,
                                const Credentials& credentials, AuthenticatedListener& listener,
                                Deadline deadline);

}  // namespace lockstep::comm
