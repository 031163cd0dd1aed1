#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "comm/net/tcp.h"
#include "comm/net/tls_context.h"

namespace lockstep::comm {

/// One end of a TLS connection on a socket, which it does not own. Never waits, never raises SIGPIPE. For one
/// thread at a time.
class TlsStream {
 public:
  enum class Role { client, server };
  /// The key in `context` outlives the handshake.
  TlsStream(const TlsContext& context, Role role, int socket);
  ~TlsStream();
  TlsStream(TlsStream&& other) noexcept;
  TlsStream& operator=(TlsStream&& other) noexcept;

  enum class Progress { done, wants_input, wants_output, failed };
  /// Goes on until both ends have proved that they know the key. It reads no byte behind its own.
  Progress handshake();
  /// Whether the other end has shown that it knows the key. A copied first message shows it too; only the end
  /// of the handshake proves it.
  bool peer_shows_key() const;

  /// After the handshake; at least a byte when `some`. What send_some did not take must be given again, and
  /// nothing else before it: some of it may be encrypted and on its way already.
  Transfer receive_some(std::span<std::byte> to, std::size_t& received);
  Transfer send_some(std::span<const std::byte> first, std::span<const std::byte> rest, std::size_t& sent);

  /// From now on a system call reads more than the next record. What has been read is not seen by poll, so
  /// receive until there is nothing yet.
  void read_ahead();
  /// What is sent next has a new key. send_some does it long before a key is worn out.
  void renew_key();

  /// What ended it; empty when the other end closed the connection.
  const std::string& problem() const;

  /// receive_some gives at most so many bytes, which travel together.
  static constexpr std::size_t most_record_bytes = 16384;
  static constexpr std::size_t most_wire_record_bytes = most_record_bytes + 256 + 5;

 private:
  struct State;
  /// Makes a record of the bytes [begin, begin + size) of first and rest.
  bool encrypt(std::span<const std::byte> first, std::span<const std::byte> rest, std::size_t begin,
               std::size_t size);

  std::unique_ptr<State> state_;
};

}  // namespace lockstep::comm
