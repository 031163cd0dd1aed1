#include "comm/store/connection.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t most_watched_keys = 16;

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

Connection::Connection(UniqueFd socket, std::string name, std::string peer)
    : socket_(std::move(socket)), name_(std::move(name)), peer_(std::move(peer)) {}

short Connection::wanted_events() const {
  if (!outgoing_.empty()) return POLLOUT;
  return waiting_ ? POLLRDHUP : POLLIN;
}

std::optional<Deadline> Connection::next_deadline() const {
  if (waiting_) return waiting_->deadline;
  return std::nullopt;
}

void Connection::serve(Table& table) {
  if (!outgoing_.empty()) return flush();
  if (waiting_) return lose();  // only its end wakes us before its key came
  read_requests(table);
}

void Connection::read_requests(Table& table) {
  std::string bytes;
  const Transfer transfer = receive_some(socket_.get(), bytes);
  const int error = errno;
  reader_.append(bytes);
  Frame frame;
  while (is_open() && outgoing_.empty() && !waiting_) {
    const auto status = reader_.next(frame);
    if (status == FrameReader::Status::malformed) return close_because(reader_.problem());
    if (status == FrameReader::Status::incomplete) break;
    handle(frame, table);
  }
  errno = error;
  if (transfer == Transfer::closed && is_open()) lose();
}

void Connection::handle(const Frame& frame, Table& table) {
  if (frame.type == Frame::Type::goodbye) return socket_.reset();
  if (frame.type == Frame::Type::watch) return watch(frame);
  const Frame reply = table.answer(frame);
  const Seconds time = waiting_time(frame);
  if (reply.type == Frame::Type::absent && time > Seconds(0)) {
    waiting_ = Waiting{frame, Deadline::in(time)};
    return;
  }
  send(reply);
  if (reply.type == Frame::Type::refused && is_open()) close_because(reply.payload);
}

void Connection::watch(const Frame& frame) {
  FieldReader fields(frame.payload);
  auto key = fields.text();
  if (!key || !fields.at_end()) return close_because("malformed fields");
  if (watched_.size() == most_watched_keys) return close_because("it watches too many keys");
  watched_.push_back(*std::move(key));
  send({Frame::Type::done, {}});
}

void Connection::serve_waiting(Table& table) {
  if (waiting_) {
    const Frame reply = table.answer(waiting_->request);
    if (reply.type != Frame::Type::absent || waiting_->deadline.passed()) {
      waiting_.reset();
      send(reply);
    }
  }
  const auto tell = [&](const std::string& key) {
    const auto value = table.find(key);
    if (value) send({Frame::Type::changed, FieldWriter().text(key).text(*value).take()});
    return value.has_value();
  };
  if (is_open()) watched_.erase(std::remove_if(watched_.begin(), watched_.end(), tell), watched_.end());
}

void Connection::send(const Frame& frame) {
  outgoing_.add(encode(frame));
  flush();
}

void Connection::flush() {
  while (is_open() && !outgoing_.empty()) {
    const Transfer transfer = outgoing_.send_some(socket_.get());
    if (transfer == Transfer::closed) lose();
    if (transfer != Transfer::some) return;
  }
}

void Connection::close_because(const std::string& reason) {
  spdlog::warn("store: closed the connection from {}: {}", peer_, reason);
  loss_ = reason;
  socket_.reset();
}

void Connection::lose() {
  int error = errno;
  if (waiting_) {
    socklen_t length = sizeof(error);
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  loss_ = error == 0 ? "its connection closed" : "its connection broke: " + errno_message(error);
  socket_.reset();
}

}  // namespace lockstep::comm
