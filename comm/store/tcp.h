#pragma once

#include <string>
#include <string_view>

#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// Listens on one address and port, not on all interfaces. An empty UniqueFd when the port is taken.
/// DeviceError when the address does not resolve or is not this machine's.
UniqueFd listen_tcp(const std::string& address, int port);

/// An empty UniqueFd when the port refuses, or does not answer by the deadline.
UniqueFd connect_tcp(const std::string& address, int port, Deadline deadline);

/// The next waiting connection, or an empty UniqueFd.
UniqueFd accept_tcp(int listener);

int local_port(int socket);

/// "10.0.0.1:2345" of the other end.
std::string peer_name(int socket);

enum class Transfer { some, nothing_yet, closed };

/// Appends what has arrived; never waits.
Transfer receive_some(int socket, std::string& to);
/// Sends and removes the front of `from` as far as the socket takes it; never waits, never raises SIGPIPE.
Transfer send_some(int socket, std::string& from);

/// Waits for poll's `events`. False when the deadline passed first.
bool wait_for_socket(int socket, short events, Deadline deadline);

}  // namespace lockstep::comm
