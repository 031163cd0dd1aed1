#include "comm/net/authenticated_listener.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "comm/net/tcp.h"

namespace lockstep::comm {

Doorman::Doorman(UniqueFd listener, Credentials credentials, Seconds time_for_hello)
    : lobby_(std::move(listener), std::move(credentials), time_for_hello, "data port", {}) {}

std::optional<Guest> Doorman::admit(Deadline deadline) {
  std::vector<pollfd> events;
  while (proved_.empty()) {
    for (Guest& guest : lobby_.serve()) proved_.push_back(std::move(guest));
    if (!proved_.empty()) break;
    if (deadline.passed()) return std::nullopt;
    events.clear();
    lobby_.append_events(events);
    poll(events.data(), events.size(), poll_milliseconds(std::min(deadline.left(), lobby_.time_left())));
  }
  Guest guest = std::move(proved_.front());
  proved_.pop_front();
  return guest;
}

UniqueFd connect_proved(const std::string& address, int port, const Credentials& credentials,
                        const std::string& purpose, Deadline deadline, std::string& obstacle) {
  UniqueFd socket = connect_tcp(address, port, deadline, obstacle);
  if (!socket) return {};
  Greeting greeting(std::move(socket), Handshake::client(credentials, purpose), deadline);
  greeting.advance();
  while (greeting.state() == Handshake::State::pending) {
    wait_for_socket(greeting.fd(), greeting.wanted_events(), deadline);
    greeting.advance();
  }
  if (greeting.state() == Handshake::State::proved) return greeting.take_socket();
  obstacle = greeting.problem();
  return {};
}

}  // namespace lockstep::comm
