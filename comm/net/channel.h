#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "comm/net/tcp.h"
#include "comm/net/tls_stream.h"
#include "kernels/base/unique_fd.h"

namespace lockstep::comm {

/// A connection's bytes, both ways: through TLS, or as they are. Never waits. For one thread at a time.
class Channel {
 public:
  Channel() = default;
  explicit Channel(UniqueFd socket) : socket_(std::move(socket)) {}
  /// `tls` is on that socket, and its handshake is done.
  Channel(UniqueFd socket, TlsStream tls) : socket_(std::move(socket)), tls_(std::move(tls)) {}

  int fd() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  bool is_encrypted() const { return tls_.has_value(); }
  void close();
  /// The same connection, whose further bytes go as they are.
  Channel without_tls() && { return Channel(std::move(socket_)); }

  /// At least a byte when `some`.
  Transfer receive_some(std::span<std::byte> to, std::size_t& received);
  Transfer receive_some(std::string& to, std::size_t most_bytes = TlsStream::most_record_bytes);
  /// What it does not take must be given again, and nothing else before it.
  Transfer send_some(std::span<const std::byte> first, std::span<const std::byte> rest, std::size_t& sent);
  /// Drops what was sent from the front of `from`.
  Transfer send_some(std::string_view& from);

  /// After `closed`: what broke the connection; empty when the other end closed it.
  const std::string& problem() const { return problem_; }

  /// For one that receives until there is nothing yet: see TlsStream::read_ahead.
  void read_ahead();
  /// How many bytes of the socket `bytes` still to be received are at least, when there is nothing yet.
  std::size_t least_to_come(std::size_t bytes) const;

 private:
  UniqueFd socket_;
  std::optional<TlsStream> tls_;
  std::string problem_;
};

/// Bytes on their way out of a connection. What has been sent is passed over, not moved away, so that a long
/// message costs its length however small the pieces are that the socket takes.
class SendBuffer {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  bool empty() const { return bytes_.empty(); }
  Transfer send_some(Channel& channel);

 private:
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace lockstep::comm
