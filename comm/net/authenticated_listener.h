#pragma once

#include <poll.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "comm/net/credentials.h"
#include "comm/net/handshake.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A connection whose other end has proved to be of the run.
struct AuthenticatedConnection {
  UniqueFd socket;
  std::string purpose;  ///< what it asked for
  std::string name;     ///< "10.0.0.1:2345"
};

/// A listener and its connections without a finished handshake. Never waits: its owner polls. A connection
/// whose handshake fails or takes too long is closed and logged; of more than most_half_open the oldest is.
class PendingConnections {
 public:
  static constexpr std::size_t most_half_open = 256;

  /// `what` it is, for the log; `serves`: see HandshakeProtocol::server.
  PendingConnections(UniqueFd listener, Credentials credentials, Seconds time_for_hello, std::string what,
                     std::string serves);

  int port() const;

  /// Appends what to poll for. With `accepting` false new connections wait in the kernel's queue.
  void append_events(std::vector<pollfd>& events, bool accepting = true) const;
  /// How long poll may wait at most.
  Seconds time_left() const;
  /// Advances all handshakes and accepts new connections. Returns the authenticated ones.
  std::vector<AuthenticatedConnection> serve(bool accepting = true);

 private:
  void accept_connections();
  void reject(const Handshake& handshake);
  bool listening() const { return !accept_again_ || accept_again_->passed(); }

  UniqueFd listener_;
  Credentials credentials_;
  Seconds time_for_hello_;
  std::string what_;
  std::string serves_;
  std::vector<Handshake> half_open_;      ///< oldest first
  std::string last_problem_;              ///< for which a connection was rejected
  std::optional<Deadline> warn_again_;    ///< of the same
  std::optional<Deadline> accept_again_;  ///< the process has no descriptor left until then
};

/// A listener that admits only authenticated connections. Several handshakes run at once, so that a silent
/// connection delays no other.
class AuthenticatedListener {
 public:
  AuthenticatedListener(UniqueFd listener, Credentials credentials, Seconds time_for_hello = Seconds(5));

  int port() const { return pending_.port(); }
  /// The next authenticated connection; nothing at the deadline. Unauthenticated ones are closed and logged.
  std::optional<AuthenticatedConnection> admit(Deadline deadline);

 private:
  PendingConnections pending_;
  std::deque<AuthenticatedConnection> proved_;
};

/// Connects and proves both ways. An empty UniqueFd, and `obstacle`, when no process answers, the other end
/// refuses, or it is not this run's. No byte behind the handshake has been read.
UniqueFd connect_proved(const std::string& address, int port, const Credentials& credentials,
                        const std::string& purpose, Deadline deadline, std::string& obstacle);

}  // namespace lockstep::comm
