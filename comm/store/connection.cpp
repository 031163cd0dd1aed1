#include "comm/store/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "comm/store/tcp.h"
#include "kernels/base/log.h"

namespace lockstep::comm {
namespace {

/// How long a `get` may wait for its key; zero for any other request.
Seconds waiting_time(const Frame& request) {
  if (request.type != Frame::Type::get) return Seconds(0);
  FieldReader fields(request.payload);
  if (!fields.text()) return Seconds(0);
  const std::int64_t milliseconds = fields.number().value_or(0);
  constexpr std::int64_t one_day = 24 * 3600 * 1000;
  return Seconds(static_cast<double>(std::clamp<std::int64_t>(milliseconds, 0, one_day)) / 1000);
}

}  // namespace

Connection::Connection(UniqueFd socket, const std::string& run_id, Seconds hello_time)
    : socket_(std::move(socket)),
      name_(peer_name(socket_.get())),
      run_id_(&run_id),
      hello_deadline_(Deadline::in(hello_time)) {}

short Connection::wanted_events() const {
  if (!outgoing_.empty()) return POLLOUT;
  return waiting_ ? POLLRDHUP : POLLIN;
}

std::optional<Deadline> Connection::next_deadline() const {
  if (!greeted_) return hello_deadline_;
  if (waiting_) return waiting_->deadline;
  return std::nullopt;
}

void Connection::serve(Table& table) {
  if (waiting_) return socket_.reset();  // it left before its key came
  flush();
  if (is_open() && outgoing_.empty()) read_requests(table);
}

void Connection::read_requests(Table& table) {
  std::string bytes;
  const Transfer transfer = receive_some(socket_.get(), bytes);
  reader_.append(bytes);
  Frame frame;
  while (is_open() && outgoing_.empty() && !waiting_) {
    const auto status = reader_.next(frame, greeted_ ? most_payload_bytes : most_hello_bytes);
    if (status == FrameReader::Status::malformed) return close_because(reader_.problem());
    if (status == FrameReader::Status::incomplete) break;
    handle(frame, table);
  }
  if (transfer == Transfer::closed) socket_.reset();
}

void Connection::handle(const Frame& frame, Table& table) {
  if (!greeted_) return greet(frame);
  const Frame reply = table.answer(frame);
  const Seconds time = waiting_time(frame);
  if (reply.type == Frame::Type::absent && time > Seconds(0)) {
    waiting_ = Waiting{frame, Deadline::in(time)};
    return;
  }
  send(reply);
  if (reply.type == Frame::Type::refused && is_open()) close_because(reply.payload);
}

void Connection::greet(const Frame& frame) {
  FieldReader fields(frame.payload);
  const auto run_id = fields.text();
  if (frame.type != Frame::Type::hello || !run_id || !fields.at_end()) return close_because("no hello");
  if (*run_id != *run_id_) {
    send({Frame::Type::refused, "this is the store of another run"});
    return close_because("its hello is for another run");
  }
  greeted_ = true;
  send({Frame::Type::done, {}});
}

void Connection::serve_waiting(Table& table) {
  if (!waiting_) return;
  const Frame reply = table.answer(waiting_->request);
  if (reply.type == Frame::Type::absent && !waiting_->deadline.passed()) return;
  waiting_.reset();
  send(reply);
}

void Connection::check_hello() {
  if (is_open() && !greeted_ && hello_deadline_.passed()) close_because("no hello in time");
}

void Connection::send(const Frame& frame) {
  outgoing_ += encode(frame);
  flush();
}

void Connection::flush() {
  while (!outgoing_.empty()) {
    const Transfer transfer = send_some(socket_.get(), outgoing_);
    if (transfer == Transfer::closed) socket_.reset();
    if (transfer != Transfer::some) return;
  }
}

void Connection::close_because(const std::string& reason) {
  spdlog::warn("store: closed the connection from {}: {}", name_, reason);
  socket_.reset();
}

}  // namespace lockstep::comm
