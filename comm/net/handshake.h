#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/net/channel.h"
#include "comm/net/frame.h"
#include "comm/net/tls_context.h"
#include "comm/net/tls_stream.h"
#include "kernels/base/deadline.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// What a connection is for.
struct ConnectionRequest {
  std::string purpose;    ///< of at most most_purpose_bytes
  bool encrypted = true;  ///< false: what follows the handshake goes without TLS

  static constexpr std::size_t most_purpose_bytes = 256;
};

/// How a connection opens, on a socket. Never waits. TLS proves the run's secret both ways; within it three
/// frames follow:
///
///     client: hello    what it wants
///     server: welcome  or refused, and why
///     client: joined   it still wants it; a client that has given up meanwhile closes
class Handshake {
 public:
  enum class State { pending, proved, refused };
  using Role = TlsStream::Role;

  /// A client asks for `request`, a server takes what begins with its purpose and is as encrypted. Refused
  /// unless proved by the deadline; a client that has proved the secret gets more. `context` outlives it.
  Handshake(UniqueFd socket, const TlsContext& context, Role role, ConnectionRequest request,
            Deadline deadline);

  int fd() const { return channel_ ? channel_->fd() : socket_.get(); }
  /// What poll should wait for, at most until the deadline.
  short wanted_events() const;
  Deadline deadline() const { return deadline_; }

  /// Goes on as far as it can, after one of wanted_events or the deadline.
  void advance();

  State state() const;
  /// Why it was refused, and the hint.
  const std::string& problem() const { return problem_; }
  /// Whether a process that knows the secret refused it: another try would end the same.
  bool is_refused_by_peer() const { return is_refused_by_peer_; }
  /// Whether the other end has shown that it knows the secret.
  bool peer_shows_secret() const { return channel_ || (tls_ && tls_->peer_shows_key()); }
  /// What the client wants; proved only when the state is.
  const std::string& purpose() const { return request_.purpose; }

  /// Once proved. No byte behind the handshake has been read.
  Channel take_channel();

 private:
  void advance_tls();
  void advance_frames();
  /// False when nothing has come.
  bool read();
  void handle(const Frame& frame);
  void handle_hello(const Frame& frame);
  void send(Frame::Type type, std::string payload = {});
  void flush();
  void handle_malformed();
  void refuse(std::string problem);
  void refuse_and_tell(std::string problem, std::string_view answer);

  const TlsContext* context_;
  Role role_;
  ConnectionRequest request_;
  Deadline deadline_;
  UniqueFd socket_;               ///< until TLS is there
  std::optional<TlsStream> tls_;  ///< from the first byte until both have proved the secret
  bool tls_wants_output_ = false;
  std::optional<Channel> channel_;
  Frame::Type expected_;
  FrameReader reader_;
  SendBuffer outgoing_;
  bool is_complete_ = false;  ///< but for what is on its way out
  std::string problem_;
  bool is_refused_by_peer_ = false;
};

/// Why there is no connection.
struct Obstacle {
  std::string text;
  bool is_stranger = false;  ///< who answers has not proved the secret
  bool is_final = false;     ///< a process that knows the secret refuses: another try would end the same
};

/// Proves both ways on a socket that is connected, as below.
Channel prove(UniqueFd socket, const TlsContext& context, const ConnectionRequest& request, Deadline deadline,
              Obstacle& obstacle);

/// Connects and proves both ways. An empty Channel, and `obstacle`, when no process answers, the other end
/// refuses, or it is not this run's. No byte behind the handshake has been read.
Channel connect_proved(const std::string& address, int port, const TlsContext& context,
                       const ConnectionRequest& request, Deadline deadline, Obstacle& obstacle);

}  // namespace lockstep::comm
