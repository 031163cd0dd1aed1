#include "comm/store/client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cmath>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

/// The server ends a wait at the deadline; its answer travels.
constexpr Seconds time_to_answer{1};

std::int64_t milliseconds(Seconds wait) {
  return static_cast<std::int64_t>(std::ceil(wait.count() * 1000));
}

Frame get_request(std::string_view key, Seconds wait) {
  return {Frame::Type::get, FieldWriter().text(key).number(milliseconds(wait)).take()};
}

}  // namespace

void StoreClient::set(std::string_view key, std::string_view value, Deadline deadline) {
  ask({Frame::Type::set, FieldWriter().text(key).text(value).take()}, deadline);
}

void StoreClient::post(std::string_view key, std::string_view value) {
  queue({Frame::Type::set, FieldWriter().text(key).text(value).take()});
  send_some();
}

bool StoreClient::has_all_answers() {
  require_connection();
  send_some();
  while (read_some()) take_reply();
  return asked_ == answered_;
}

std::optional<std::string> StoreClient::get(std::string_view key, Deadline deadline) {
  Frame reply = ask(get_request(key, Seconds(0)), deadline);
  if (reply.type == Frame::Type::absent) return std::nullopt;
  return std::move(reply.payload);
}

std::string StoreClient::wait(std::string_view key, Deadline deadline) {
  auto value = wait_for(key, deadline);
  if (!value) throw CommError(fmt::format("nobody set {} in the store in time", key));
  return *std::move(value);
}

std::optional<std::string> StoreClient::wait_for(std::string_view key, Deadline deadline) {
  // The server ends the wait at the deadline, or after a day, so give its answer time to arrive.
  do {
    auto reply = try_ask(get_request(key, deadline.left()), Deadline::in(deadline.left() + time_to_answer));
    if (reply && reply->type != Frame::Type::absent) return std::move(reply->payload);
  } while (!deadline.passed());
  return std::nullopt;
}

std::vector<std::string> StoreClient::wait_for_each(std::string_view text, std::int64_t first,
                                                    std::int64_t end, Deadline deadline) {
  const std::string fields =
      FieldWriter().text(text).number(first).number(end).number(milliseconds(deadline.left())).take();
  const auto reply = try_ask({Frame::Type::get_each, fields}, Deadline::in(deadline.left() + time_to_answer));
  std::vector<std::string> values;
  if (!reply) return values;
  for (FieldReader read(reply->payload); !read.at_end();) {
    auto value = read.text();
    if (!value || std::ssize(values) == end - first) fail("answers get_each with other values");
    values.push_back(*std::move(value));
  }
  return values;
}

std::int64_t StoreClient::add(std::string_view key, std::int64_t amount, Deadline deadline) {
  const Frame reply = ask({Frame::Type::add, FieldWriter().text(key).number(amount).take()}, deadline);
  const auto sum = parse_number<std::int64_t>(reply.payload);
  if (!sum) fail("answers add with no number");
  return *sum;
}

bool StoreClient::compare_and_set(std::string_view key, std::optional<std::string_view> expected,
                                  std::string_view desired, Deadline deadline) {
  const std::string fields = FieldWriter()
                                 .text(key)
                                 .number(expected ? 1 : 0)
                                 .text(expected.value_or(std::string_view()))
                                 .text(desired)
                                 .take();
  const Frame before = ask({Frame::Type::compare_and_set, fields}, deadline);
  if (before.type == Frame::Type::absent) return !expected;
  return expected && before.payload == *expected;
}

std::optional<std::string> StoreClient::claim(std::string_view key, std::string_view text,
                                              Deadline deadline) {
  Frame before = ask({Frame::Type::claim, FieldWriter().text(key).text(text).take()}, deadline);
  if (before.type == Frame::Type::absent) return std::nullopt;
  return std::move(before.payload);
}

bool StoreClient::erase(std::string_view key, Deadline deadline) {
  return ask({Frame::Type::erase, FieldWriter().text(key).take()}, deadline).type == Frame::Type::done;
}

void StoreClient::watch(std::string_view key, Deadline deadline) {
  ask({Frame::Type::watch, FieldWriter().text(key).take()}, deadline);
}

std::optional<StoreClient::Change> StoreClient::take_change() {
  while (changes_.empty()) {
    require_connection();
    take_reply();
    if (changes_.empty() && !read_some()) return std::nullopt;
  }
  Change change = std::move(changes_.front());
  changes_.pop_front();
  return change;
}

void StoreClient::wait_for_end(Deadline deadline) {
  try {
    while (wait_for_events(POLLIN, deadline)) read_some();
  } catch (const CommError&) {
    // The end that was waited for.
  }
}

void StoreClient::say_goodbye(Deadline deadline) {
  queue({Frame::Type::goodbye, {}});
  while (!outgoing_.empty()) {
    if (!send_some() && !wait_for_events(POLLOUT, deadline))
      throw CommError(at_store("it took no data in time"));
  }
  channel_.close();
}

std::string StoreClient::own_address() const {
  return local_address(channel_.fd());
}

std::optional<Frame> StoreClient::try_ask(const Frame& request, Deadline deadline) {
  queue(request);
  while (true) {
    const bool moved = send_some();
    if (auto reply = take_reply()) {
      if (reply->type == Frame::Type::refused) fail(reply->payload);
      return reply;
    }
    if (moved || read_some()) continue;
    const short events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
    if (!wait_for_events(events, deadline)) return std::nullopt;
  }
}

Frame StoreClient::ask(const Frame& request, Deadline deadline) {
  auto reply = try_ask(request, deadline);
  if (!reply) throw CommError(at_store("it did not answer in time"));
  return *std::move(reply);
}

void StoreClient::queue(const Frame& request) {
  require_connection();
  if (request.payload.size() > most_payload_bytes) {
    throw CommError(fmt::format("{} bytes are too many for the store", request.payload.size()));
  }
  outgoing_.add(encode(request));
  ++asked_;
}

bool StoreClient::send_some() {
  if (outgoing_.empty()) return false;
  const Transfer transfer = outgoing_.send_some(channel_);
  if (transfer == Transfer::closed) fail_closed();
  return transfer == Transfer::some;
}

bool StoreClient::wait_for_events(short events, Deadline deadline) {
  while (true) {
    const Deadline check = Deadline::in(std::min(deadline.left(), time_between_link_checks));
    if (wait_for_socket(channel_.fd(), events, check)) return true;
    if (is_link_dead(channel_.fd())) fail(dead_link);
    if (deadline.passed()) return false;
  }
}

std::optional<Frame> StoreClient::take_reply() {
  Frame frame;
  while (true) {
    const auto status = reader_.next(frame);
    if (status == FrameReader::Status::malformed) fail(reader_.problem());
    if (status == FrameReader::Status::incomplete) return std::nullopt;
    if (frame.type == Frame::Type::changed) {
      keep_change(frame);
      continue;
    }
    if (answered_ == asked_) fail("it sent a reply without a request");
    if (++answered_ == asked_) return frame;
  }
}

void StoreClient::keep_change(const Frame& frame) {
  FieldReader fields(frame.payload);
  auto key = fields.text();
  auto value = fields.text();
  if (!key || !value) fail("it tells of a change without key and value");
  changes_.push_back({*std::move(key), *std::move(value)});
}

bool StoreClient::read_some() {
  std::string bytes;
  const Transfer transfer = channel_.receive_some(bytes);
  if (transfer == Transfer::closed) fail_closed();
  reader_.append(bytes);
  return transfer == Transfer::some;
}

void StoreClient::require_connection() const {
  if (!channel_) {
    throw CommError(fmt::format("the store at {} was lost before", endpoint_name(address_, port_)));
  }
}

void StoreClient::fail_closed() {
  fail(channel_.problem().empty() ? "it closed the connection" : std::string(channel_.problem()));
}

void StoreClient::fail(const std::string& reason) {
  channel_.close();
  throw CommError(at_store(reason));
}

std::string StoreClient::at_store(const std::string& reason) const {
  return fmt::format("the store at {}: {}", endpoint_name(address_, port_), reason);
}

}  // namespace lockstep::comm
