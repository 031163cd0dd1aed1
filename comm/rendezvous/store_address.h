#pragma once

#include <string>

#include "comm/communicator.h"
#include "comm/world/world.h"

namespace lockstep::comm {

/// Whether whoever started the ranks said where rank 0 is.
bool master_is_known(const World& world);

/// Of this machine: --interface's, else where others most likely reach it.
std::string own_address(const CommOptions& options);

/// Where to look for rank 0's store when the master is known. A host's own name often stands for 127.0.1.1 in
/// its /etc/hosts; rank 0 then listens where other hosts reach it, and its neighbours look there too.
std::string store_address(const World& world, const CommOptions& options);

/// Where rank 0 lets the store listen: at store_address if that is this machine's, else at its own address.
std::string listening_address(const World& world, const CommOptions& options);

}  // namespace lockstep::comm
