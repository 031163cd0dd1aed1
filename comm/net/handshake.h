#pragma once

#include <string>
#include <string_view>

#include "comm/net/credentials.h"
#include "comm/net/frame.h"
#include "comm/net/tcp.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// How two processes of a run prove to each other that both know its secret, without sending it. Bytes in,
/// bytes out; no sockets. Four frames:
///
///     client: hello      run id, purpose, whether it has a secret, 32 random bytes
///     server: challenge  32 random bytes
///     client: proof      HMAC-SHA256(secret; protocol, "client", both random values, run id, purpose)
///     server: welcome    the same with "server"
///
/// Both random values are fresh, so recorded bytes prove nothing later, and the roles differ, so neither side
/// can be answered with its own messages. An unauthenticated client gets nothing that depends on the secret.
class HandshakeProtocol {
 public:
  enum class State { pending, proved, refused };

  /// `purpose`: what the connection is for, in at most most_purpose_bytes.
  static HandshakeProtocol client(const Credentials& credentials, std::string purpose);
  /// Refuses a purpose that does not begin with `serves`.
  static HandshakeProtocol server(const Credentials& credentials, std::string serves = {});

  /// From the peer. Never keeps much more than most_hello_bytes while pending.
  void receive(std::string_view bytes);
  /// To be sent to the peer, in any state: a server's refusal has its reason.
  std::string take_outgoing() { return std::exchange(outgoing_, {}); }

  State state() const { return state_; }
  /// Why it was refused, and the hint.
  const std::string& problem() const { return problem_; }
  /// A server learns it from the client; proved only when the state is.
  const std::string& purpose() const { return purpose_; }

  /// While pending, reading no more than these takes no byte that follows the handshake.
  std::size_t missing_bytes() const { return reader_.missing_bytes(); }

  static constexpr std::size_t most_purpose_bytes = 256;

 private:
  enum class Role { client, server };
  HandshakeProtocol(Role role, const Credentials& credentials, std::string purpose);

  void handle(const Frame& frame);
  void handle_hello(const Frame& frame);
  void handle_challenge(const Frame& frame);
  void handle_proof(const Frame& frame);
  void handle_welcome(const Frame& frame);
  void handle_malformed();
  /// Ends the handshake. `answer` goes to the peer when it is not empty.
  void refuse(std::string problem, std::string_view answer = {});
  std::string proof_of(std::string_view role) const;
  void send(Frame::Type type, std::string payload);

  Role role_;
  Credentials credentials_;
  std::string serves_;
  std::string purpose_;
  std::string own_nonce_;
  std::string peer_nonce_;
  Frame::Type expected_;
  State state_ = State::pending;
  std::string problem_;
  std::string outgoing_;
  FrameReader reader_;
};

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

  /// Pending until the last byte is sent, too.
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
