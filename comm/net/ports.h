#pragma once

#include <vector>

#include "comm/world/world.h"

namespace lockstep::comm {

/// Where the store of this run may listen, in the order in which to try: MASTER_PORT alone when our launch
/// keeps it free, else the ports of --port-range, else (both 0) eight derived from the run id (torchrun's
/// agent listens on MASTER_PORT itself).
std::vector<int> store_ports(const World& world, int first_port = 0, int last_port = 0);

}  // namespace lockstep::comm
