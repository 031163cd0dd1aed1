#pragma once

#include <poll.h>

#include <cstddef>
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

/// A listener and those who have connected and not yet proved who they are. Never waits: its owner polls.
/// Whoever fails or takes too long is closed and logged. Of more than most_half_open at once the oldest is.
class PendingConnections {
 public:
  static constexpr std::size_t most_half_open = 256;

  /// `what` it is, for the log; `serves`: see HandshakeProtocol::server.
  PendingConnections(UniqueFd listener, Credentials credentials, Seconds time_for_hello, std::string what,
                     std::string serves);

  int port() const;

  /// Appends what to poll for. With `accepting` false newcomers wait in the kernel's queue.
  void append_events(std::vector<pollfd>& events, bool accepting = true) const;
  /// How long poll may wait at most.
  Seconds time_left() const;
  /// Goes on with all that are there and accepts newcomers; those who have proved.
  std::vector<AuthenticatedConnection> serve(bool accepting = true);

 private:
  void accept_newcomers();
  void reject(const Handshake& handshake);
  bool listening() const { return !accept_again_ || accept_again_->passed(); }

  UniqueFd listener_;
  Credentials credentials_;
  Seconds time_for_hello_;
  std::string what_;
  std::string serves_;
  std::vector<Handshake> half_open_;      ///< oldest first
  std::string last_problem_;              ///< that somebody was turned away for
  std::optional<Deadline> warn_again_;    ///< of the same
  std::optional<Deadline> accept_again_;  ///< the process has no descriptor left until then
};

}  // namespace lockstep::comm
