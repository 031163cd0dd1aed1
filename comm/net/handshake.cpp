#include "comm/net/handshake.h"

#include <poll.h>

#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/errno_message.h"

namespace lockstep::comm {

Greeting::Greeting(UniqueFd socket, Handshake handshake, Deadline deadline)
    : socket_(std::move(socket)),
      peer_(peer_name(socket_.get())),
      handshake_(std::move(handshake)),
      deadline_(deadline),
      outgoing_(handshake_.take_outgoing()) {}

short Greeting::wanted_events() const {
  return outgoing_.empty() ? POLLIN : POLLOUT;
}

void Greeting::advance() {
  flush();
  while (state() == Handshake::State::pending && outgoing_.empty() && read()) flush();
  if (state() == Handshake::State::pending && deadline_.passed()) fail("no handshake in time");
}

Handshake::State Greeting::state() const {
  if (!problem_.empty()) return Handshake::State::refused;
  return outgoing_.empty() ? handshake_.state() : Handshake::State::pending;
}

bool Greeting::read() {
  std::string bytes;
  const Transfer transfer = receive_some(socket_.get(), bytes, handshake_.missing_bytes());
  if (transfer == Transfer::closed) fail(errno == 0 ? "it closed the connection" : errno_message(errno));
  if (transfer != Transfer::some) return false;
  handshake_.receive(bytes);
  outgoing_.add(handshake_.take_outgoing());
  return true;
}

void Greeting::flush() {
  while (!outgoing_.empty()) {
    const Transfer transfer = outgoing_.send_some(socket_.get());
    if (transfer == Transfer::closed) return fail("it closed the connection");
    if (transfer == Transfer::nothing_yet) return;
  }
}

void Greeting::fail(const std::string& problem) {
  problem_ = problem;
  outgoing_.clear();
}

}  // namespace lockstep::comm
