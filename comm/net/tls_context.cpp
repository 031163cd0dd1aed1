#include "comm/net/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <string>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr const char* cipher_suite = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char cipher_id[] = {0x13, 0x01};

/// Four records: what a system call takes at most where a stream reads ahead.
constexpr std::size_t read_buffer_bytes = std::size_t{65} << 10;

struct FreeSession {
  void operator()(SSL_SESSION* session) const noexcept { SSL_SESSION_free(session); }
};

const RunKey& key_of(SSL* ssl) {
  return *static_cast<const RunKey*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

/// How OpenSSL takes a key: as a session to go on with. A new one each time, since it changes what it is
/// given.
SSL_SESSION* session_of_key(SSL* ssl) {
  std::unique_ptr<SSL_SESSION, FreeSession> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, cipher_id);
  const auto& key = key_of(ssl).key;
  const bool ok = session && cipher != nullptr &&
                  SSL_SESSION_set1_master_key(session.get(), key.data(), key.size()) == 1 &&
                  SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
                  SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return ok ? session.release() : nullptr;
}

int use_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* length,
            SSL_SESSION** session) {
  const std::string& own = key_of(ssl).identity;
  *identity = reinterpret_cast<const unsigned char*>(own.data());
  *length = own.size();
  *session = session_of_key(ssl);
  return *session != nullptr ? 1 : 0;
}

/// A client of the run without the right to a secret is answered with the key, which it cannot prove to know.
int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  const RunKey& key = key_of(ssl);
  const std::string_view named(reinterpret_cast<const char*>(identity), length);
  std::string_view& refusal = *static_cast<std::string_view*>(SSL_get_app_data(ssl));
  *session = nullptr;
  if (!named.starts_with(key.run)) {
    refusal = another_run;
    return 1;
  }
  if (named != key.identity) refusal = one_without_secret;
  *session = session_of_key(ssl);
  return *session != nullptr ? 1 : 0;
}

}  // namespace

TlsContext::TlsContext(const Credentials& credentials)
    : has_secret_(!credentials.secret.empty()),
      key_(std::make_unique<RunKey>(derive_run_key(credentials))),
      context_(SSL_CTX_new(TLS_method())) {
  SSL_CTX* const context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, cipher_suite) != 1 || SSL_CTX_set_num_tickets(context, 0) != 1) {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    throw DeviceError(fmt::format(
        "OpenSSL refuses TLS 1.3 with {}: {}; check its configuration (openssl ciphers -s -tls1_3)",
        cipher_suite, reason == nullptr ? "no reason given" : reason));
  }
  SSL_CTX_set_options(context,
                      SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);  // goodbyes are our own frames
  SSL_CTX_clear_options(context, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_default_read_buffer_len(context, read_buffer_bytes);
  SSL_CTX_set_app_data(context, const_cast<RunKey*>(key_.get()));
  SSL_CTX_set_psk_use_session_callback(context, use_key);
  SSL_CTX_set_psk_find_session_callback(context, find_key);
}

TlsContext::Ssl TlsContext::open(bool is_server, std::string_view& refusal) const {
  Ssl ssl(SSL_new(context_.get()));
  if (!ssl) throw DeviceError("OpenSSL cannot open a TLS connection: is there memory left?");
  SSL_set_app_data(ssl.get(), &refusal);
  if (is_server) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
    SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);  // a server with a certificate is none of the run
  }
  return ssl;
}

void TlsContext::FreeContext::operator()(ssl_ctx_st* context) const noexcept {
  SSL_CTX_free(context);
}

void TlsContext::FreeSsl::operator()(ssl_st* ssl) const noexcept {
  SSL_free(ssl);
}

}  // namespace lockstep::comm
