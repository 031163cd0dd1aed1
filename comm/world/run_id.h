#pragma once

#include <initializer_list>
#include <string>

#include "comm/world/find_world.h"

namespace lockstep::comm {

/// 16 hex digits from the world's source, the named variables (job and step, as far as set) and the master's
/// address and port.
std::string make_run_id(const World& world, const Environment& environment,
                        std::initializer_list<const char*> job_variables);

}  // namespace lockstep::comm
