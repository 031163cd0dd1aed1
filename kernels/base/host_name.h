#pragma once

#include <string>

namespace lockstep {

/// Of this machine, for reports; "?" when the system does not tell.
std::string host_name();

}  // namespace lockstep
