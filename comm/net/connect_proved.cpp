#include "comm/net/connect_proved.h"

#include <utility>

#include "comm/net/tcp.h"

namespace lockstep::comm {

Channel connect_proved(const std::string& address, int port, const TlsContext& context,
                       const ConnectionRequest& request, Deadline deadline, Obstacle& obstacle) {
  obstacle = {};
  UniqueFd socket = connect_tcp(address, port, deadline, obstacle.text);
  if (!socket) return {};
  Handshake handshake(std::move(socket), context, Handshake::Role::client, request, deadline);
  while (handshake.state() == Handshake::State::pending) {
    wait_for_socket(handshake.fd(), handshake.wanted_events(), deadline);
    handshake.advance();
  }
  if (handshake.state() == Handshake::State::proved) return handshake.take_channel();
  const bool is_final = handshake.is_refused_by_peer();
  obstacle = {.text = handshake.problem(), .is_stranger = !is_final, .is_final = is_final};
  return {};
}

}  // namespace lockstep::comm
