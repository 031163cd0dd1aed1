#include "comm/net/handshake.h"

#include <poll.h>

#include <utility>

#include "comm/net/tcp.h"

namespace lockstep::comm {
namespace {

constexpr const char* one_encrypts =
    "one side encrypts data and the other does not: give the same --data-security on all ranks";

/// It may be slow; strangers may not.
constexpr Seconds time_of_a_proved_client{30};

/// Text of another process must not move the cursor or forge lines of a log.
std::string printable(std::string text) {
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

Handshake::Handshake(UniqueFd socket, const TlsContext& context, Role role, ConnectionRequest request,
                     Deadline deadline)
    : context_(&context),
      role_(role),
      request_(std::move(request)),
      deadline_(deadline),
      socket_(std::move(socket)),
      expected_(role == Role::client ? Frame::Type::welcome : Frame::Type::hello) {}

short Handshake::wanted_events() const {
  if (channel_) return outgoing_.empty() ? POLLIN : POLLOUT;
  const bool opens = role_ == Role::client && !tls_;
  return opens || tls_wants_output_ ? POLLOUT : POLLIN;
}

Handshake::State Handshake::state() const {
  if (!problem_.empty()) return State::refused;
  return is_complete_ && outgoing_.empty() ? State::proved : State::pending;
}

Channel Handshake::take_channel() {
  return request_.encrypted ? *std::move(channel_) : std::move(*channel_).without_tls();
}

void Handshake::advance() {
  if (!channel_) advance_tls();
  if (channel_) advance_frames();
  if (state() == State::pending && deadline_.passed()) refuse("no handshake in time");
}

void Handshake::advance_tls() {
  if (!tls_ && deadline_.passed()) return;  // a silent peer costs no TLS
  if (!tls_) tls_.emplace(*context_, role_, socket_.get());
  const TlsStream::Progress progress = tls_->handshake();
  tls_wants_output_ = progress == TlsStream::Progress::wants_output;
  if (progress == TlsStream::Progress::failed) return refuse(tls_->problem());
  if (progress != TlsStream::Progress::done) return;
  channel_.emplace(std::move(socket_), *std::move(tls_));
  tls_.reset();
  if (role_ == Role::server) deadline_ = Deadline::in(time_of_a_proved_client);
  if (role_ == Role::client) {
    send(Frame::Type::hello, FieldWriter().text(request_.purpose).number(request_.encrypted ? 1 : 0).take());
  }
}

void Handshake::advance_frames() {
  flush();
  while (state() == State::pending && outgoing_.empty() && read()) flush();
}

bool Handshake::read() {
  std::string bytes;
  const Transfer transfer = channel_->receive_some(bytes, reader_.missing_bytes());
  if (transfer == Transfer::closed) refuse(channel_->problem());
  if (transfer != Transfer::some) return false;
  reader_.append(bytes);
  Frame frame;
  const auto status = reader_.next(frame, most_hello_bytes);
  if (status == FrameReader::Status::complete) handle(frame);
  if (status == FrameReader::Status::malformed) handle_malformed();
  return true;
}

void Handshake::handle(const Frame& frame) {
  if (frame.type == Frame::Type::refused) {
    is_refused_by_peer_ = true;
    return refuse(printable(frame.payload));
  }
  if (frame.type != expected_) return refuse("it is out of step in the handshake");
  if (frame.type == Frame::Type::hello) return handle_hello(frame);
  if (frame.type == Frame::Type::welcome) send(Frame::Type::joined);
  is_complete_ = true;
}

void Handshake::handle_hello(const Frame& frame) {
  FieldReader fields(frame.payload);
  const auto purpose = fields.text();
  const auto encrypted = fields.number();
  if (!purpose || !encrypted || !fields.at_end() || purpose->size() > ConnectionRequest::most_purpose_bytes) {
    return refuse("a malformed hello");
  }
  if (!purpose->starts_with(request_.purpose)) {
    return refuse_and_tell("it wants what this port does not serve", "this port serves something else");
  }
  if ((*encrypted != 0) != request_.encrypted) return refuse_and_tell(one_encrypts, one_encrypts);
  request_.purpose = *purpose;
  expected_ = Frame::Type::joined;
  send(Frame::Type::welcome);
}

/// A client reads the version of the server from the header of the answer.
void Handshake::handle_malformed() {
  is_refused_by_peer_ = role_ == Role::client;
  refuse_and_tell(reader_.problem(), "it runs another version");
}

void Handshake::send(Frame::Type type, std::string payload) {
  outgoing_.add(encode({type, std::move(payload)}));
}

void Handshake::flush() {
  while (!outgoing_.empty()) {
    const Transfer transfer = outgoing_.send_some(*channel_);
    if (transfer == Transfer::closed) return refuse(channel_->problem());
    if (transfer == Transfer::nothing_yet) return;
  }
}

void Handshake::refuse(std::string problem) {
  outgoing_ = {};
  problem_ = problem.empty() ? "it closed the connection" : std::move(problem);
}

void Handshake::refuse_and_tell(std::string problem, std::string_view answer) {
  if (role_ == Role::server) {
    send(Frame::Type::refused, std::string(answer));
    flush();  // an answer that does not fit into the socket's buffer is none
  }
  refuse(std::move(problem));
}

Channel prove(UniqueFd socket, const TlsContext& context, const ConnectionRequest& request, Deadline deadline,
              Obstacle& obstacle) {
  Handshake handshake(std::move(socket), context, Handshake::Role::client, request, deadline);
  while (handshake.state() == Handshake::State::pending) {
    wait_for_socket(handshake.fd(), handshake.wanted_events(), deadline);
    handshake.advance();
  }
  if (handshake.state() == Handshake::State::proved) return handshake.take_channel();
  const bool is_final = handshake.is_refused_by_peer();
  obstacle = {.text = handshake.problem(), .is_stranger = !is_final, .is_final = is_final};
  return {};
}

Channel connect_proved(const std::string& address, int port, const TlsContext& context,
                       const ConnectionRequest& request, Deadline deadline, Obstacle& obstacle) {
  obstacle = {};
  UniqueFd socket = connect_tcp(address, port, deadline, obstacle.text);
  if (!socket) return {};
  return prove(std::move(socket), context, request, deadline, obstacle);
}

}  // namespace lockstep::comm
