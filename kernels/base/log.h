#pragma once

#include <spdlog/spdlog.h>

namespace lockstep {

/// The process's logger (stderr): the one piece of global state. `rank` prefixes every line when there are
/// peers.
void set_up_log(int rank, int world_size);

}  // namespace lockstep
