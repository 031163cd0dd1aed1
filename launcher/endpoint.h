#pragma once

#include <string>

namespace lockstep::launcher {

/// A TCP port that is free on `address` now. UsageError when the name does not resolve; an address that is
/// not this machine's is asked for on all interfaces.
int free_port(const std::string& address);

}  // namespace lockstep::launcher
