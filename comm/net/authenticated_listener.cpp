#include "comm/net/authenticated_listener.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "comm/polling.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

constexpr Seconds pause_without_descriptors{0.1};
constexpr Seconds time_between_equal_warnings{5};

}  // namespace

PendingConnections::PendingConnections(UniqueFd listener, Credentials credentials, Seconds time_for_hello,
                                       std::string what, std::string serves)
    : listener_(std::move(listener)),
      credentials_(std::move(credentials)),
      time_for_hello_(time_for_hello),
      what_(std::move(what)),
      serves_(std::move(serves)) {}

int PendingConnections::port() const {
  return local_port(listener_.get());
}

void PendingConnections::append_events(std::vector<pollfd>& events, bool accepting) const {
  if (accepting && listening()) events.push_back({listener_.get(), POLLIN, 0});
  for (const Handshake& handshake : half_open_) {
    events.push_back({handshake.fd(), handshake.wanted_events(), 0});
  }
}

Seconds PendingConnections::time_left() const {
  Seconds least{3600};
  for (const Handshake& handshake : half_open_) least = std::min(least, handshake.deadline().left());
  if (!listening()) least = std::min(least, accept_again_->left());
  return least;
}

std::vector<AuthenticatedConnection> PendingConnections::serve(bool accepting) {
  if (accepting && listening()) accept_connections();
  std::vector<AuthenticatedConnection> connections;
  for (Handshake& handshake : half_open_) {
    handshake.advance();
    if (handshake.state() == HandshakeProtocol::State::refused) reject(handshake);
    if (handshake.state() != HandshakeProtocol::State::proved) continue;
    connections.push_back({handshake.take_socket(), handshake.purpose(), handshake.peer()});
  }
  const auto is_over = [](const Handshake& handshake) {
    return handshake.state() != HandshakeProtocol::State::pending;
  };
  half_open_.erase(std::remove_if(half_open_.begin(), half_open_.end(), is_over), half_open_.end());
  return connections;
}

void PendingConnections::accept_connections() {
  while (UniqueFd socket = accept_tcp(listener_.get())) {
    if (half_open_.size() == most_half_open) {
      log::warn("{}: closed the connection from {}: too many without a handshake", what_,
                half_open_.front().peer());
      half_open_.erase(half_open_.begin());
    }
    half_open_.emplace_back(std::move(socket), HandshakeProtocol::server(credentials_, serves_),
                            Deadline::in(time_for_hello_));
  }
  if (errno != EMFILE && errno != ENFILE) return;
  log::warn("{}: cannot accept a connection: {}; raise the limit (ulimit -n)", what_, errno_message(errno));
  accept_again_ = Deadline::in(pause_without_descriptors);
}

/// A peer that tries again and again is logged once in a while.
void PendingConnections::reject(const Handshake& handshake) {
  if (handshake.problem() == last_problem_ && !warn_again_->passed()) return;
  last_problem_ = handshake.problem();
  warn_again_ = Deadline::in(time_between_equal_warnings);
  log::warn("{}: closed the connection from {}: {}", what_, handshake.peer(), last_problem_);
}

AuthenticatedListener::AuthenticatedListener(UniqueFd listener, Credentials credentials,
                                             Seconds time_for_hello)
    : pending_(std::move(listener), std::move(credentials), time_for_hello, "data port", {}) {}

std::optional<AuthenticatedConnection> AuthenticatedListener::admit(Deadline deadline) {
  std::vector<pollfd> events;
  while (proved_.empty()) {
    for (AuthenticatedConnection& connection : pending_.serve()) proved_.push_back(std::move(connection));
    if (!proved_.empty()) break;
    if (deadline.passed()) return std::nullopt;
    events.clear();
    pending_.append_events(events);
    poll_until(events, Deadline::in(std::min(deadline.left(), pending_.time_left())));
  }
  AuthenticatedConnection connection = std::move(proved_.front());
  proved_.pop_front();
  return connection;
}

UniqueFd connect_proved(const std::string& address, int port, const Credentials& credentials,
                        const std::string& purpose, Deadline deadline, std::string& obstacle) {
  UniqueFd socket = connect_tcp(address, port, deadline, obstacle);
  if (!socket) return {};
  Handshake handshake(std::move(socket), HandshakeProtocol::client(credentials, purpose), deadline);
  handshake.advance();
  while (handshake.state() == HandshakeProtocol::State::pending) {
    wait_for_socket(handshake.fd(), handshake.wanted_events(), deadline);
    handshake.advance();
  }
  if (handshake.state() == HandshakeProtocol::State::proved) return handshake.take_socket();
  obstacle = handshake.problem();
  return {};
}

}  // namespace lockstep::comm
