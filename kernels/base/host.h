#pragma once

#include <string>

namespace lockstep {

/// This machine's name, for reports; "?" when the system does not tell.
std::string host_name();

/// The kernel's random id of this boot: equal in two processes on one machine, containers included. Empty
/// when the system does not tell.
std::string boot_id();

}  // namespace lockstep
