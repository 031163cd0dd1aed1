#pragma once

#include <vector>

#include "comm/tcp/link.h"
#include "comm/tcp/placement.h"
#include "comm/tcp/peer_exchange.h"
#include "comm/net/authenticated_listener.h"

namespace lockstep::comm {

/// A proved data connection to each of `rank`'s peers, in their order. The higher rank connects, the lower
/// admits. CommError names the peer that could not be reached, or did not come.
std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<RankCard>& cards,
                                const Credentials& credentials, Doorman& doorman, Deadline deadline);

}  // namespace lockstep::comm
