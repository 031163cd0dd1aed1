#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/net/channel.h"
#include "comm/net/credentials.h"
#include "comm/net/handshake.h"
#include "comm/net/tls_context.h"
#include "comm/polling.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// Tells of connections that a port closed, with how many there were for which reason: a line at once for a
/// new reason, and for what goes on one after 1 s, 2 s, and so on to one a minute.
class RejectionLog {
 public:
  /// `port`: what it is, for the log.
  explicit RejectionLog(std::string port) : port_(std::move(port)) {}
  ~RejectionLog() { write(); }
  RejectionLog(RejectionLog&&) noexcept = default;

  void add(const std::string& reason, const std::string& peer);
  /// Writes what has come together, once it is time.
  void write_when_due();
  /// Until write_when_due has something to do.
  Seconds time_left() const;

 private:
  struct Rejections {
    std::size_t count = 0;
    std::string last_peer;
  };
  void write();

  std::string port_;
  std::map<std::string, Rejections> reasons_;  ///< since the last line
  std::set<std::string> told_;                 ///< reasons that are not new
  Seconds pause_{0};                           ///< behind the next line
  std::optional<Deadline> next_line_;
};

/// A connection whose other end has proved to be of the run.
struct AuthenticatedConnection {
  Channel channel;
  std::string purpose;  ///< what it asked for
  std::string peer;     ///< "10.0.0.1:2345"
};

/// What a port is.
struct PortService {
  std::string name;           ///< for the log: "store"
  ConnectionRequest accepts;  ///< see Handshake
  Seconds time_for_hello{5};  ///< from when it is accepted to the end of its handshake
};

/// A listener and its connections without a finished handshake. Never waits: its owner polls. A connection
/// whose handshake fails or takes too long is closed and logged. When a network or all together hold too
/// many, the oldest that has not shown the secret goes: of that network, or of the one that holds most.
class PendingConnections {
 public:
  static constexpr std::size_t most_half_open = 256;
  static constexpr std::ptrdiff_t most_of_a_network = 128;

  PendingConnections(UniqueFd listener, const Credentials& credentials, PortService service);

  int port() const;

  /// Appends what to poll for. With `accepting` false new connections wait in the kernel's queue.
  void append_events(std::vector<pollfd>& events, bool accepting = true) const;
  /// How long poll may wait at most.
  Seconds time_left() const;
  /// Goes on after a poll of what append_events appended last. Returns the authenticated ones.
  std::vector<AuthenticatedConnection> serve(std::span<const pollfd> events);
  /// Of the last process of the run that came without its secret, where it came from, and what to do; empty:
  /// none did.
  const std::string& came_without_secret() const { return came_without_secret_; }

 private:
  struct Pending {
    Handshake handshake;
    PeerAddress peer;
    std::string network;
  };

  void accept_connections();
  void add(UniqueFd socket, const PeerAddress& peer);
  /// For one more of that network. False when all that are there have shown the secret.
  bool make_room(const std::string& network);
  std::string largest_network() const;

  UniqueFd listener_;
  TlsContext context_;
  PortService service_;
  std::list<Pending> half_open_;  ///< oldest first
  RejectionLog rejections_;
  std::string came_without_secret_;
  AcceptPause pause_;
};

/// A listener that admits only authenticated connections. Several handshakes run at once, so that a silent
/// connection delays no other.
class AuthenticatedListener {
 public:
  AuthenticatedListener(UniqueFd listener, const Credentials& credentials, bool encrypted = true);

  int port() const { return pending_.port(); }
  /// The next authenticated connection; nothing at the deadline. Unauthenticated ones are closed and logged.
  std::optional<AuthenticatedConnection> admit(Deadline deadline);

 private:
  PendingConnections pending_;
  std::deque<AuthenticatedConnection> proved_;
};

}  // namespace lockstep::comm
