#include "comm/net/handshake.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t nonce_bytes = 32;
constexpr std::string_view protocol_label = "lockstep handshake 1";

constexpr std::string_view another_run = "this is the port of another run";
constexpr std::string_view wrong_secret =
    "its secret is another: give the same --token-file or LOCKSTEP_TOKEN on all nodes";
constexpr std::string_view one_without_secret =
    "one side has a secret and the other has none: give --insecure on all nodes or on none";

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
           &length) == nullptr) {
    throw DeviceError("OpenSSL refuses HMAC-SHA256: check its configuration (openssl dgst -sha256)");
  }
  return {reinterpret_cast<const char*>(digest.data()), length};
}

/// Text from an unauthenticated peer must not move the cursor or forge lines of a log.
std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

HandshakeProtocol::HandshakeProtocol(Role role, const Credentials& credentials, std::string purpose)
    : role_(role),
      credentials_(credentials),
      purpose_(std::move(purpose)),
      own_nonce_(random_bytes(nonce_bytes)),
      expected_(role == Role::client ? Frame::Type::challenge : Frame::Type::hello) {}

HandshakeProtocol HandshakeProtocol::client(const Credentials& credentials, std::string purpose) {
  HandshakeProtocol made(Role::client, credentials, std::move(purpose));
  made.send(Frame::Type::hello, FieldWriter()
                                    .text(credentials.run_id)
                                    .text(made.purpose_)
                                    .number(credentials.secret.empty() ? 0 : 1)
                                    .text(made.own_nonce_)
                                    .take());
  return made;
}

HandshakeProtocol HandshakeProtocol::server(const Credentials& credentials, std::string serves) {
  HandshakeProtocol made(Role::server, credentials, {});
  made.serves_ = std::move(serves);
  return made;
}

void HandshakeProtocol::receive(std::string_view bytes) {
  reader_.append(bytes);
  Frame frame;
  while (state_ == State::pending) {
    const auto status = reader_.next(frame, most_hello_bytes);
    if (status == FrameReader::Status::incomplete) return;
    if (status == FrameReader::Status::malformed) return handle_malformed();
    handle(frame);
  }
}

void HandshakeProtocol::handle_malformed() {
  // Only a peer with a version of our protocol gets an answer: the client reads our version from its header.
  const bool answer = role_ == Role::server && reader_.is_other_version();
  refuse(reader_.problem(), answer ? "it runs another version" : "");
}

void HandshakeProtocol::handle(const Frame& frame) {
  if (role_ == Role::client && frame.type == Frame::Type::refused) return refuse(printable(frame.payload));
  if (frame.type != expected_) return refuse("no handshake");
  if (role_ == Role::server) {
    frame.type == Frame::Type::hello ? handle_hello(frame) : handle_proof(frame);
  } else {
    frame.type == Frame::Type::challenge ? handle_challenge(frame) : handle_welcome(frame);
  }
}

void HandshakeProtocol::handle_hello(const Frame& frame) {
  FieldReader fields(frame.payload);
  const auto run_id = fields.text();
  const auto purpose = fields.text();
  const auto has_secret = fields.number();
  const auto nonce = fields.text();
  if (!run_id || !purpose || !has_secret || !nonce || !fields.at_end() || nonce->size() != nonce_bytes ||
      purpose->size() > most_purpose_bytes) {
    return refuse("a malformed hello");
  }
  if (*run_id != credentials_.run_id) return refuse("its hello is for another run", another_run);
  if ((*has_secret != 0) == credentials_.secret.empty()) {
    return refuse(std::string(one_without_secret), one_without_secret);
  }
  if (purpose->compare(0, serves_.size(), serves_) != 0) {
    return refuse("it wants what this port does not serve", "this port serves something else");
  }
  purpose_ = *purpose;
  peer_nonce_ = *nonce;
  expected_ = Frame::Type::proof;
  send(Frame::Type::challenge, own_nonce_);
}

void HandshakeProtocol::handle_challenge(const Frame& frame) {
  if (frame.payload.size() != nonce_bytes) return refuse("a malformed challenge");
  peer_nonce_ = frame.payload;
  expected_ = Frame::Type::welcome;
  send(Frame::Type::proof, proof_of("client"));
}

void HandshakeProtocol::handle_proof(const Frame& frame) {
  if (!equal_in_constant_time(frame.payload, proof_of("client"))) {
    return refuse(std::string(wrong_secret), wrong_secret);
  }
  state_ = State::proved;
  send(Frame::Type::welcome, proof_of("server"));
}

void HandshakeProtocol::handle_welcome(const Frame& frame) {
  if (!equal_in_constant_time(frame.payload, proof_of("server"))) return refuse(std::string(wrong_secret));
  state_ = State::proved;
}

void HandshakeProtocol::refuse(std::string problem, std::string_view answer) {
  state_ = State::refused;
  problem_ = std::move(problem);
  if (!answer.empty()) send(Frame::Type::refused, std::string(answer));
}

std::string HandshakeProtocol::proof_of(std::string_view role) const {
  const bool is_client = role_ == Role::client;
  return hmac_sha256(credentials_.secret, FieldWriter()
                                              .text(protocol_label)
                                              .text(role)
                                              .text(is_client ? own_nonce_ : peer_nonce_)
                                              .text(is_client ? peer_nonce_ : own_nonce_)
                                              .text(credentials_.run_id)
                                              .text(purpose_)
                                              .take());
}

void HandshakeProtocol::send(Frame::Type type, std::string payload) {
  outgoing_ += encode({type, std::move(payload)});
}

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
