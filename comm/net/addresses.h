#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "comm/world/world.h"
#include "kernels/base/deadline.h"

namespace lockstep::comm {

/// The address of a network device ("eth0"; its IPv4 address when it has both), or `name` itself when it is
/// an address of this machine. UsageError names the devices that there are.
std::string address_of_interface(const std::string& name);

/// The network device of that name, or which has that address. UsageError as above.
std::string device_of_interface(const std::string& name);

/// Our own address on the way to `remote` (a name or an address), as the kernel's routes have it; nothing is
/// sent. Empty when there is no way, or the name does not resolve by the deadline.
std::string address_facing(const std::string& remote, Deadline deadline = Deadline::in(Seconds(5)));

/// Where others most likely reach this machine: the address that faces the rest of the world, else that of
/// the first device that is up, else loopback.
std::string main_address();

/// Whether a name or an address is this machine's, so that one can listen there. False for a name that does
/// not resolve by the deadline.
bool is_own_address(const std::string& address, Deadline deadline);

/// "10.0.0.1" or "fe80::1%eth0".
std::string numeric_address(const sockaddr& address);

/// `localhost` too.
bool is_loopback_address(const std::string& address);

/// fe80::1%eth0: it reaches one link only, and each host there has a name of its own for that (eth0).
bool is_link_local_address(const std::string& address);
/// Another host's address as this one, whose own address is `own`, calls it. CommError when it is link-local
/// and `own` is not.
std::string as_seen_from(const std::string& own, const std::string& address);
/// UsageError when a link-local address lacks the interface.
void require_interface_in(const std::string& address);

/// Where the store of this run may listen, in the order in which to try: MASTER_PORT alone when our launch
/// set it, else the ports of --port-range, else (both 0) eight derived from the run id (torchrun's
/// agent listens on MASTER_PORT itself).
std::vector<int> store_ports(const World& world, int first_port = 0, int last_port = 0);

/// "20000-20007, 29500", for messages: it does not grow with the number of ports.
std::string name_of_ports(const std::vector<int>& ports);

}  // namespace lockstep::comm
