#include "comm/store/client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/store/tcp.h"
#include "kernels/base/error.h"
#include "kernels/base/number.h"

namespace lockstep::comm {
namespace {

// A stranger that accepts and stays silent must not use up the time for the other ports.
constexpr Seconds time_per_port{1};
constexpr std::chrono::milliseconds longest_pause{100};

Frame get_request(std::string_view key, Seconds wait) {
  const auto milliseconds = static_cast<std::int64_t>(wait.count() * 1000);
  return {Frame::Type::get, FieldWriter().text(key).number(milliseconds).take()};
}

}  // namespace

StoreClient StoreClient::connect(const std::string& address, const std::vector<int>& ports,
                                 const std::string& run_id, Deadline deadline) {
  const Frame hello{Frame::Type::hello, FieldWriter().text(run_id).take()};
  std::string obstacle;
  std::chrono::milliseconds pause{1};
  while (true) {
    for (const int port : ports) {
      const Deadline try_until = Deadline::in(std::min(deadline.left(), time_per_port));
      UniqueFd socket = connect_tcp(address, port, try_until);
      if (!socket) continue;
      StoreClient client(std::move(socket), fmt::format("{}:{}", address, port));
      try {
        client.ask(hello, try_until);
        return client;
      } catch (const CommError& error) {
        // A try that the deadline cut short must not hide what an earlier one was told.
        if (obstacle.empty() || !deadline.passed()) obstacle = error.what();
      }
    }
    if (deadline.passed()) {
      throw CommError(fmt::format("no store of run {} at {}, port {}: {}", run_id, address,
                                  fmt::join(ports, ", "),
                                  obstacle.empty() ? "nothing listens there" : obstacle));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

void StoreClient::set(std::string_view key, std::string_view value, Deadline deadline) {
  ask({Frame::Type::set, FieldWriter().text(key).text(value).take()}, deadline);
}

std::optional<std::string> StoreClient::get(std::string_view key, Deadline deadline) {
  Frame reply = ask(get_request(key, Seconds(0)), deadline);
  if (reply.type == Frame::Type::absent) return std::nullopt;
  return std::move(reply.payload);
}

std::string StoreClient::wait(std::string_view key, Deadline deadline) {
  // The server ends the wait at the deadline, so give its answer time to arrive.
  Frame reply = ask(get_request(key, deadline.left()), Deadline::in(deadline.left() + time_per_port));
  if (reply.type == Frame::Type::absent)
    throw CommError(fmt::format("nobody set {} in the store in time", key));
  return std::move(reply.payload);
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

bool StoreClient::erase(std::string_view key, Deadline deadline) {
  return ask({Frame::Type::erase, FieldWriter().text(key).take()}, deadline).type == Frame::Type::done;
}

Frame StoreClient::ask(const Frame& request, Deadline deadline) {
  if (!socket_) throw CommError(fmt::format("the store at {} was lost before", name_));
  if (request.payload.size() > most_payload_bytes) {
    throw CommError(fmt::format("{} bytes are too many for the store", request.payload.size()));
  }
  send(request, deadline);
  Frame reply = receive(deadline);
  if (reply.type == Frame::Type::refused) fail(reply.payload);
  return reply;
}

void StoreClient::send(const Frame& frame, Deadline deadline) {
  std::string bytes = encode(frame);
  while (!bytes.empty()) {
    const Transfer transfer = send_some(socket_.get(), bytes);
    if (transfer == Transfer::closed) fail("it closed the connection");
    if (transfer == Transfer::nothing_yet && !wait_for_socket(socket_.get(), POLLOUT, deadline)) {
      fail("it took no data in time");
    }
  }
}

Frame StoreClient::receive(Deadline deadline) {
  Frame frame;
  std::string bytes;
  while (true) {
    const auto status = reader_.next(frame);
    if (status == FrameReader::Status::complete) return frame;
    if (status == FrameReader::Status::malformed) fail(reader_.problem());
    const Transfer transfer = receive_some(socket_.get(), bytes);
    if (transfer == Transfer::closed) fail("it closed the connection");
    if (transfer == Transfer::nothing_yet && !wait_for_socket(socket_.get(), POLLIN, deadline)) {
      fail("it did not answer in time");
    }
    reader_.append(bytes);
    bytes.clear();
  }
}

void StoreClient::fail(const std::string& reason) {
  socket_.reset();
  throw CommError(fmt::format("the store at {}: {}", name_, reason));
}

}  // namespace lockstep::comm
