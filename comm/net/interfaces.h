#pragma once

#include <string>

#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// The address of a network device ("eth0"; its IPv4 address when it has both), or `name` itself when it is
/// an address of this machine. UsageError names the devices that there are.
std::string address_of_interface(const std::string& name);

/// Our own address on the way to `remote` (a name or an address), as the kernel's routes have it; nothing is
/// sent. Empty when there is no way, or the name does not resolve by the deadline.
std::string address_facing(const std::string& remote, Deadline deadline = Deadline::in(Seconds(5)));

/// Where others most likely reach this machine: the address that faces the rest of the world, else that of
/// the first device that is up, else loopback.
std::string main_address();

/// Whether a name or an address is this machine's, so that one can listen there.
bool is_own_address(const std::string& address);

bool is_loopback_address(const std::string& address);

}  // namespace lockstep::comm
