#pragma once

#include <memory>
#include <string_view>

#include "comm/net/credentials.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep::comm {

/// TLS 1.3 with a pre-shared key, which all processes of a run derive from its secret, and fresh
/// Diffie-Hellman keys for each connection (psk_dhe_ke). No certificates, no tickets. For any number of
/// threads.
class TlsContext {
 public:
  /// DeviceError when the machine's OpenSSL does not offer that.
  explicit TlsContext(const Credentials& credentials);

  struct FreeSsl {
    void operator()(ssl_st* ssl) const noexcept;
  };
  using Ssl = std::unique_ptr<ssl_st, FreeSsl>;
  /// A connection without a socket, which does not outlive the context. A server says in `refusal`, which
  /// stays where it is, why it does not take the key that the client names.
  Ssl open(bool is_server, std::string_view& refusal) const;
  bool has_secret() const { return has_secret_; }

 private:
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const noexcept;
  };
  bool has_secret_;
  std::unique_ptr<const RunKey> key_;  ///< its address is known to the context
  std::unique_ptr<ssl_ctx_st, FreeContext> context_;
};

/// What two ends that do not belong together are told.
inline constexpr std::string_view another_run = "this is the port of another run, or of another TLS server";
inline constexpr std::string_view wrong_secret =
    "its secret is another: give the same --token-file or LOCKSTEP_TOKEN on all nodes";
inline constexpr std::string_view one_without_secret =
    "one side has a secret and the other has none: give --insecure on all nodes or on none";
/// Whether that says of a process of the run that its secret is not the run's.
inline bool is_about_secret(std::string_view told) {
  return told == wrong_secret || told == one_without_secret;
}

}  // namespace lockstep::comm
