#pragma once

#include <vector>

#include "comm/world.h"

namespace lockstep::comm {

/// Where the store of this run may listen, in the order in which to try: MASTER_PORT alone when our launch
/// keeps it free, else eight ports derived from the run id (torchrun's agent listens on MASTER_PORT itself).
std::vector<int> store_ports(const World& world);

}  // namespace lockstep::comm
