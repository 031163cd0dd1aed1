#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

struct FreeAddressList {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};

/// The addresses that a name has, or why it has none.
struct Resolution {
  std::unique_ptr<addrinfo, FreeAddressList> list;
  std::string problem;
};

/// TCP addresses of a host name or of a numeric IPv4 or IPv6 address. Ends by the deadline however long the
/// name servers stay silent.
Resolution resolve(const std::string& address, int port, Deadline deadline);

// Connections send small messages at once. They notice a link that is down within 4 s, idle or not, and
// survive one that is down for 2 s; a stopped process is not taken for lost, since its kernel answers.

/// Listens on one address and port (0: any free one), not on all interfaces. An empty UniqueFd when the port
/// is taken. DeviceError when the address does not resolve or is not this machine's.
UniqueFd listen_tcp(const std::string& address, int port);

/// Listens on the first free port from `first` to `last`; on any free one when both are 0. DeviceError when
/// all are taken.
UniqueFd listen_in_range(const std::string& address, int first, int last);

/// Tries every address that the name has. An empty UniqueFd when none accepts by the deadline; `obstacle`
/// then says why. A name that does not resolve is an obstacle too, since it may resolve later.
UniqueFd connect_tcp(const std::string& address, int port, Deadline deadline, std::string& obstacle);

/// The kernel spreads out what the socket sends, as a slower network would.
void limit_sending(int socket, double bytes_per_s);

/// Where the other end of a connection is.
class PeerAddress {
 public:
  /// "10.0.0.1:2345" or "[::1]:2345"
  std::string name() const;
  /// Equal for what one host may call itself: an IPv4 address, or the first 64 bits of an IPv6 address.
  std::string network() const;

 private:
  friend UniqueFd accept_tcp(int listener, PeerAddress& peer);
  sockaddr_storage address_{};
};

/// The next waiting connection, or an empty UniqueFd.
UniqueFd accept_tcp(int listener, PeerAddress& peer);
UniqueFd accept_tcp(int listener);

/// Whether the other end's kernel has acknowledged nothing for 3 s, however often data or probes were sent.
/// An other end that is suspended, or that leaves its buffer full, is no dead link. The kernel closes an idle
/// connection whose link is dead (keep-alive) within 4 s, but one with data on its way only after minutes
/// (TCP_USER_TIMEOUT would take a full buffer for a dead link): who waits for a socket asks.
bool is_link_dead(int socket);
/// The same before 3 s have passed, or the connection is closed.
bool is_cut_off(int socket);
inline constexpr Seconds time_between_link_checks{0.5};
inline constexpr const char* dead_link = "nothing has been acknowledged for 3 s";

int local_port(int socket);

/// "10.0.0.1" or "fe80::1%eth0": the address of this end of a connection.
std::string local_address(int socket);

/// "10.0.0.1:2345" or "[::1]:2345".
std::string endpoint_name(const std::string& address, int port);

/// After `closed` errno is 0 when the other end closed in order, else what broke the connection.
enum class Transfer { some, nothing_yet, closed };

/// Appends what has arrived, at most `most_bytes`; never waits.
Transfer receive_some(int socket, std::string& to, std::size_t most_bytes = 16384);
/// Sends as much of `from` as the socket takes, and drops that from its front; never waits, never raises
/// SIGPIPE.
Transfer send_some(int socket, std::string_view& from);

/// Waits for poll's `events`. False when the deadline passed first.
bool wait_for_socket(int socket, short events, Deadline deadline);

}  // namespace lockstep::comm
