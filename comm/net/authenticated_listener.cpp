#include "comm/net/authenticated_listener.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "comm/net/tcp.h"

namespace lockstep::comm {

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
    poll(events.data(), events.size(), poll_milliseconds(std::min(deadline.left(), pending_.time_left())));
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
