#pragma once

#include <vector>

#include "comm/direct/link.h"
#include "comm/direct/placement.h"
#include "comm/direct/roll_call.h"
#include "comm/store/doorman.h"

namespace lockstep::comm {

/// A proved data connection to each of `rank`'s peers, in their order. The higher rank connects, the lower
/// admits. CommError names the peer that could not be reached, or did not come.
std::vector<Link> connect_peers(const Placement& placement, int rank, const std::vector<RankCard>& cards,
                                const Credentials& credentials, Doorman& doorman, Deadline deadline);

}  // namespace lockstep::comm
