#pragma once

#include <deque>
#include <optional>
#include <string>

#include "comm/net/pending_connections.h"

namespace lockstep::comm {

/// A listener that admits only who proves to be of the run, with several handshakes under way at once, so
/// that a silent stranger holds up nobody.
class AuthenticatedListener {
 public:
  AuthenticatedListener(UniqueFd listener, Credentials credentials, Seconds time_for_hello = Seconds(5));

  int port() const { return pending_.port(); }
  /// The next proved connection; nothing at the deadline. Strangers are closed and logged.
  std::optional<AuthenticatedConnection> admit(Deadline deadline);

 private:
  PendingConnections pending_;
  std::deque<AuthenticatedConnection> proved_;
};

/// Connects and proves both ways. An empty UniqueFd, and `obstacle`, when nobody answers, the other end
/// refuses, or it is not this run's. No byte behind the handshake has been read.
UniqueFd connect_proved(const std::string& address, int port, const Credentials& credentials,
                        const std::string& purpose, Deadline deadline, std::string& obstacle);

}  // namespace lockstep::comm
