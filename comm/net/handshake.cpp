#include "comm/net/handshake.h"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"

namespace lockstep::comm {

Handshake::Handshake(UniqueFd socket, HandshakeProtocol handshake, Deadline deadline)
    : socket_(std::move(socket)),
      peer_(peer_name(socket_.get())),
      handshake_(std::move(handshake)),
      deadline_(deadline),
      outgoing_(handshake_.take_outgoing()) {}

short Handshake::wanted_events() const {
  return outgoing_.empty() ? POLLIN : POLLOUT;
}

void Handshake::advance() {
  flush();
  while (state() == HandshakeProtocol::State::pending && outgoing_.empty() && read()) flush();
  if (state() == HandshakeProtocol::State::pending && deadline_.passed()) fail("no handshake in time");
}

HandshakeProtocol::State Handshake::state() const {
  if (!problem_.empty()) return HandshakeProtocol::State::refused;
  return outgoing_.empty() ? handshake_.state() : HandshakeProtocol::State::pending;
}

bool Handshake::read() {
  std::string bytes;
  const Transfer transfer = receive_some(socket_.get(), bytes, handshake_.missing_bytes());
  if (transfer == Transfer::closed) fail(errno == 0 ? "it closed the connection" : errno_message(errno));
  if (transfer != Transfer::some) return false;
  handshake_.receive(bytes);
  outgoing_.add(handshake_.take_outgoing());
  return true;
}

void Handshake::flush() {
  while (!outgoing_.empty()) {
    const Transfer transfer = outgoing_.send_some(socket_.get());
    if (transfer == Transfer::closed) return fail("it closed the connection");
    if (transfer == Transfer::nothing_yet) return;
  }
}

void Handshake::fail(const std::string& problem) {
  problem_ = problem;
  outgoing_.clear();
}

}  // namespace lockstep::comm
