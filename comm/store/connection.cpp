#include "comm/store/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"
#include "kernels/base/log.h"
#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

Frame refused(const char* reason) {
  return {Frame::Type::refused, reason};
}
Frame malformed() {
  return refused("malformed fields");
}

constexpr std::size_t most_watched_keys = 16;
constexpr std::size_t most_claims = 16;

constexpr std::int64_t most_numbered_keys = std::int64_t{1} << 24;
/// The client asks for the rest.
constexpr std::size_t enough_bytes = std::size_t{1} << 20;

Deadline deadline_of(const AskedKeys& keys) {
  constexpr std::int64_t one_day = 24 * 3600 * 1000;
  return Deadline::in(Seconds(static_cast<double>(std::min(keys.milliseconds, one_day)) / 1000));
}

}  // namespace

std::optional<AskedKeys> AskedKeys::of(const Frame& request) {
  if (request.type != Frame::Type::get && request.type != Frame::Type::get_each) return std::nullopt;
  const bool is_numbered = request.type == Frame::Type::get_each;
  FieldReader fields(request.payload);
  auto text = fields.text();
  const auto first = is_numbered ? fields.number() : 0;
  const auto end = is_numbered ? fields.number() : 1;
  const auto milliseconds = fields.number();
  if (!text || !first || !end || !milliseconds || !fields.at_end()) return std::nullopt;
  if (*first < 0 || *end < *first || *end > most_numbered_keys) return std::nullopt;
  return AskedKeys{*std::move(text), is_numbered, *first, *end, *milliseconds};
}

Frame Table::answer(const Frame& request) {
  FieldReader fields(request.payload);
  switch (request.type) {
    case Frame::Type::set:
      return set(fields);
    case Frame::Type::get:
    case Frame::Type::get_each: {
      const auto keys = AskedKeys::of(request);
      if (!keys) return malformed();
      return keys->is_numbered ? get_each(*keys) : current(keys->text);
    }
    case Frame::Type::add:
      return add(fields);
    case Frame::Type::compare_and_set:
      return compare_and_set(fields);
    case Frame::Type::erase:
      return erase(fields);
    default:
      return refused("not a request");
  }
}

std::optional<std::string> Table::find(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

Frame Table::current(const std::string& key) const {
  auto value = find(key);
  if (!value) return {Frame::Type::absent, {}};
  return {Frame::Type::value, *std::move(value)};
}

Frame Table::set(FieldReader& fields) {
  const auto key = fields.text();
  const auto value = fields.text();
  if (!key || !value || !fields.at_end()) return malformed();
  values_[*key] = *value;
  return {Frame::Type::done, {}};
}

Frame Table::get_each(const AskedKeys& keys) const {
  FieldWriter values;
  std::size_t bytes = 0;
  for (std::int64_t number = keys.first; number < keys.end; ++number) {
    const auto found = values_.find(keys.key(number));
    if (found == values_.end()) break;
    bytes += sizeof(std::uint32_t) + found->second.size();
    if (number > keys.first && bytes > enough_bytes) break;
    values.text(found->second);
  }
  return {Frame::Type::value, values.take()};
}

Frame Table::add(FieldReader& fields) {
  const auto key = fields.text();
  const auto amount = fields.number();
  if (!key || !amount || !fields.at_end()) return malformed();
  const Frame before = current(*key);
  const auto number = parse_number<std::int64_t>(before.type == Frame::Type::absent ? "0" : before.payload);
  std::int64_t sum = 0;
  if (!number || __builtin_add_overflow(*number, *amount, &sum)) return refused("add to what is no number");
  values_[*key] = std::to_string(sum);
  return current(*key);
}

Frame Table::compare_and_set(FieldReader& fields) {
  const auto key = fields.text();
  const auto expects_value = fields.number();
  const auto expected = fields.text();
  const auto desired = fields.text();
  if (!key || !expects_value || !expected || !desired || !fields.at_end()) return malformed();
  const Frame before = current(*key);
  const bool present = before.type == Frame::Type::value;
  if (present == (*expects_value != 0) && (!present || before.payload == *expected)) values_[*key] = *desired;
  return before;
}

Frame Table::erase(FieldReader& fields) {
  const auto key = fields.text();
  if (!key || !fields.at_end()) return malformed();
  return {values_.erase(*key) == 0 ? Frame::Type::absent : Frame::Type::done, {}};
}

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
  const Transfer transfer = channel_.receive_some(bytes);
  reader_.append(bytes);
  Frame frame;
  while (is_open() && outgoing_.empty() && !waiting_) {
    const auto status = reader_.next(frame);
    if (status == FrameReader::Status::malformed) return close_because(reader_.problem());
    if (status == FrameReader::Status::incomplete) break;
    handle(frame, table);
  }
  if (transfer == Transfer::closed && is_open()) lose();
}

void Connection::handle(const Frame& frame, Table& table) {
  if (frame.type == Frame::Type::goodbye) return channel_.close();
  if (frame.type == Frame::Type::watch) return watch(frame);
  if (frame.type == Frame::Type::claim) return claim(frame, table);
  if (const auto keys = AskedKeys::of(frame); keys && keys->milliseconds > 0) {
    Waiting waiting{frame, *keys, deadline_of(*keys)};
    if (!waiting.is_over(table)) {
      waiting_ = std::move(waiting);
      return;
    }
  }
  const Frame reply = table.answer(frame);
  send(reply);
  if (reply.type == Frame::Type::refused && is_open()) close_because(reply.payload);
}

void Connection::claim(const Frame& frame, Table& table) {
  FieldReader fields(frame.payload);
  auto key = fields.text();
  auto text = fields.text();
  if (!key || !text || !fields.at_end()) return close_because("malformed fields");
  if (claims_.size() == most_claims) return close_because("it claims too many keys");
  const Frame before = table.answer(
      {Frame::Type::compare_and_set, FieldWriter().text(*key).number(0).text({}).text(*text).take()});
  if (before.type == Frame::Type::absent) {
    if (claims_.empty()) name_ = *std::move(text);
    claims_.push_back(*std::move(key));
  }
  send(before);
}

void Connection::release(Table& table) {
  for (const std::string& key : claims_) table.answer({Frame::Type::erase, FieldWriter().text(key).take()});
}

void Connection::watch(const Frame& frame) {
  FieldReader fields(frame.payload);
  auto key = fields.text();
  if (!key || !fields.at_end()) return close_because("malformed fields");
  if (watched_.size() == most_watched_keys) return close_because("it watches too many keys");
  watched_.push_back(*std::move(key));
  send({Frame::Type::done, {}});
}

/// Each key is looked up until it is there, not all of them whenever the table has changed.
bool Connection::Waiting::is_over(const Table& table) {
  while (missing.first < missing.end && table.has(missing.key(missing.first))) ++missing.first;
  return missing.first == missing.end || deadline.passed();
}

void Connection::serve_waiting(Table& table) {
  if (waiting_ && waiting_->is_over(table)) {
    const Frame reply = table.answer(waiting_->request);
    waiting_.reset();
    send(reply);
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
    const Transfer transfer = outgoing_.send_some(channel_);
    if (transfer == Transfer::closed) lose();
    if (transfer != Transfer::some) return;
  }
}

void Connection::close_because(const std::string& reason) {
  log::warn("store: closed the connection from {}: {}", peer_, reason);
  loss_ = reason;
  channel_.close();
}

void Connection::lose() {
  std::string problem = channel_.problem();
  if (waiting_) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(channel_.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) problem = errno_message(error);
  }
  lose(problem);
}

void Connection::lose(const std::string& problem) {
  loss_ = problem.empty() ? "its connection closed" : "its connection broke: " + problem;
  channel_.close();
}

}  // namespace lockstep::comm
