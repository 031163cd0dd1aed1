#pragma once

#include <string>

#include "comm/net/handshake_protocol.h"
#include "comm/net/send_buffer.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A handshake on a socket, half open until it is proved or refused. Never waits.
class Handshake {
 public:
  /// Refused when it is not proved by the deadline.
  Handshake(UniqueFd socket, HandshakeProtocol handshake, Deadline deadline);

  int fd() const { return socket_.get(); }
  /// What poll should wait for, at most until the deadline.
  short wanted_events() const;
  Deadline deadline() const { return deadline_; }

  /// Sends and reads as far as it goes.
  void advance();

  /// Pending until the last word is sent, too.
  HandshakeProtocol::State state() const;
  std::string problem() const { return problem_.empty() ? handshake_.problem() : problem_; }
  const std::string& peer() const { return peer_; }
  const std::string& purpose() const { return handshake_.purpose(); }

  /// Once proved. No byte behind the handshake has been read.
  UniqueFd take_socket() { return std::move(socket_); }

 private:
  void flush();
  /// False when nothing has come.
  bool read();
  void fail(const std::string& problem);

  UniqueFd socket_;
  std::string peer_;
  HandshakeProtocol handshake_;
  Deadline deadline_;
  SendBuffer outgoing_;
  std::string problem_;  ///< of the connection; the handshake has its own
};

}  // namespace lockstep::comm
