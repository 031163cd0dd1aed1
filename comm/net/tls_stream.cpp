#include "comm/net/tls_stream.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

/// A key of AES-GCM serves 2^24.5 records (RFC 8446, 5.5), which are five times as many bytes.
constexpr std::uint64_t most_bytes_per_key = std::uint64_t{64} << 30;

/// A system call takes records until there are so many bytes of them: gpt_char over 1 Gbit/s took 51.3 ms a
/// step in place of 54.0 with a call for each record.
constexpr std::size_t bytes_of_call = std::size_t{64} << 10;

constexpr std::string_view no_handshake = "it does not speak Lockstep's protocol";
constexpr std::string_view altered = "what came was changed on the way";

bool try_again_later() {
  return errno == EAGAIN || errno == EINTR;
}

}  // namespace

struct TlsStream::State {
  Role role;
  int socket;
  bool has_secret;
  bool gathers = false;  ///< more records before the next system call
  bool at_end = false;   ///< the other end has closed its side
  bool is_proved = false;
  int error = 0;                  ///< the socket's
  std::vector<char> records;      ///< on their way to the socket
  std::size_t records_taken = 0;  ///< bytes of them that it has
  std::size_t payload = 0;        ///< bytes of send_some's that they hold
  std::uint64_t bytes_of_key = 0;
  std::string_view refusal;
  std::string problem;
  TlsContext::Ssl ssl;

  /// What a call that did not succeed means.
  Transfer outcome(int result);
  std::string reason_of_failure() const;

  /// Whether the socket has all records now.
  bool flush(bool more_follows);

  // The socket, as OpenSSL uses it: its own way raises SIGPIPE, and makes a system call of each record.
  static const BIO_METHOD* socket_methods();
  static int read(BIO* bio, char* to, int bytes);
  static int write(BIO* bio, const char* from, int bytes);
  static long control(BIO* bio, int command, long number, void* pointer);
  static State& of(BIO* bio) { return *static_cast<State*>(BIO_get_data(bio)); }
};

const BIO_METHOD* TlsStream::State::socket_methods() {
  static BIO_METHOD* const methods = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep socket");
    BIO_meth_set_read(made, read);
    BIO_meth_set_write(made, write);
    BIO_meth_set_ctrl(made, control);
    return made;
  }();
  return methods;
}

int TlsStream::State::read(BIO* bio, char* to, int bytes) {
  State& state = of(bio);
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(state.socket, to, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
  state.at_end = got == 0;
  if (got < 0 && try_again_later()) {
    BIO_set_retry_read(bio);
  } else if (got < 0) {
    state.error = errno;
  }
  return static_cast<int>(got);
}

int TlsStream::State::write(BIO* bio, const char* from, int bytes) {
  State& state = of(bio);
  state.records.insert(state.records.end(), from, from + bytes);
  return bytes;
}

bool TlsStream::State::flush(bool more_follows) {
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more_follows ? MSG_MORE : 0);
  while (records_taken < records.size()) {
    const ssize_t sent = send(socket, records.data() + records_taken, records.size() - records_taken, flags);
    if (sent < 0) {
      if (!try_again_later()) error = errno;
      return false;
    }
    records_taken += static_cast<std::size_t>(sent);
  }
  records.clear();
  records_taken = 0;
  return true;
}

long TlsStream::State::control(BIO* bio, int command, long, void*) {
  State& state = of(bio);
  if (command == BIO_CTRL_EOF) return state.at_end ? 1 : 0;
  if (command != BIO_CTRL_FLUSH) return 0;
  BIO_clear_retry_flags(bio);
  if (state.gathers || state.flush(false)) return 1;
  if (state.error == 0) BIO_set_retry_write(bio);
  return -1;
}

Transfer TlsStream::State::outcome(int result) {
  switch (SSL_get_error(ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return Transfer::nothing_yet;
    case SSL_ERROR_ZERO_RETURN:
      problem.clear();
      break;
    case SSL_ERROR_SYSCALL:
      problem = error == 0 ? std::string() : errno_message(error);
      break;
    default:
      problem = reason_of_failure();
  }
  return Transfer::closed;
}

std::string TlsStream::State::reason_of_failure() const {
  const auto code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (is_proved) {
    const char* const text = ERR_reason_error_string(code);
    return fmt::format("{} ({})", altered, text == nullptr ? "TLS failed" : text);
  }
  if (role == Role::server) {
    if (!refusal.empty()) return std::string(refusal);
    return std::string(reason == SSL_R_BINDER_DOES_NOT_VERIFY ? wrong_secret : no_handshake);
  }
  switch (reason) {
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return std::string(has_secret ? wrong_secret : one_without_secret);
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return std::string(another_run);
    default:
      return std::string(no_handshake);
  }
}

TlsStream::TlsStream(const TlsContext& context, Role role, int socket)
    : state_(new State{.role = role, .socket = socket, .has_secret = context.has_secret()}) {
  state_->ssl = context.open(role == Role::server, state_->refusal);
  BIO* const bio = BIO_new(State::socket_methods());
  if (bio == nullptr) throw DeviceError("OpenSSL cannot open a TLS connection: is there memory left?");
  BIO_set_data(bio, state_.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(state_->ssl.get(), bio, bio);
}

TlsStream::~TlsStream() = default;
TlsStream::TlsStream(TlsStream&& other) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&& other) noexcept = default;

TlsStream::Progress TlsStream::handshake() {
  ERR_clear_error();
  SSL* const ssl = state_->ssl.get();
  const int result = SSL_do_handshake(ssl);
  if (result != 1) {
    if (state_->outcome(result) == Transfer::closed) return Progress::failed;
    return SSL_want_write(ssl) ? Progress::wants_output : Progress::wants_input;
  }
  state_->is_proved = peer_shows_key();
  if (state_->is_proved) return Progress::done;
  state_->problem = another_run;
  return Progress::failed;
}

bool TlsStream::peer_shows_key() const {
  return SSL_session_reused(state_->ssl.get()) == 1;
}

Transfer TlsStream::receive_some(std::span<std::byte> to, std::size_t& received) {
  ERR_clear_error();
  const int result = SSL_read_ex(state_->ssl.get(), to.data(), to.size(), &received);
  if (result == 1) return Transfer::some;
  received = 0;
  return state_->outcome(result);
}

Transfer TlsStream::send_some(std::span<const std::byte> first, std::span<const std::byte> rest,
                              std::size_t& sent) {
  const std::size_t all = first.size() + rest.size();
  for (sent = 0; sent < all;) {
    while (sent + state_->payload < all && state_->records.size() < bytes_of_call) {
      const std::size_t begin = sent + state_->payload;
      if (!encrypt(first, rest, begin, std::min(all - begin, most_record_bytes))) {
        state_->problem = state_->reason_of_failure();
        return Transfer::closed;
      }
    }
    if (!state_->flush(sent + state_->payload < all)) {
      if (state_->error == 0) return sent > 0 ? Transfer::some : Transfer::nothing_yet;
      state_->problem = errno_message(state_->error);
      return Transfer::closed;
    }
    sent += std::exchange(state_->payload, 0);
  }
  return Transfer::some;
}

bool TlsStream::encrypt(std::span<const std::byte> first, std::span<const std::byte> rest, std::size_t begin,
                        std::size_t size) {
  std::array<std::byte, most_record_bytes> joined;
  std::span<const std::byte> record;
  if (begin >= first.size()) {
    record = rest.subspan(begin - first.size(), size);
  } else {
    const auto from_first = first.subspan(begin, std::min(size, first.size() - begin));
    const auto from_rest = rest.first(size - from_first.size());
    // By pointers, which become memmove: by iterators of spans it is a loop of bytes.
    std::copy_n(from_rest.data(), from_rest.size(),
                std::copy_n(from_first.data(), from_first.size(), joined.data()));
    record = std::span(joined).first(size);
  }
  if (state_->bytes_of_key > most_bytes_per_key) renew_key();
  ERR_clear_error();
  std::size_t written = 0;
  state_->gathers = true;
  const int result = SSL_write_ex(state_->ssl.get(), record.data(), record.size(), &written);
  state_->gathers = false;
  state_->payload += written;
  state_->bytes_of_key += written;
  return result == 1;
}

void TlsStream::read_ahead() {
  SSL_set_read_ahead(state_->ssl.get(), 1);
}

void TlsStream::renew_key() {
  SSL_key_update(state_->ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
  state_->bytes_of_key = 0;
}

const std::string& TlsStream::problem() const {
  return state_->problem;
}

}  // namespace lockstep::comm
