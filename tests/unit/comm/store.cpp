#include <fmt/format.h>
#include <poll.h>

#include <condition_variable>
#include <mutex>

#include "comm/net/addresses.h"
#include "comm/net/channel.h"
#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/connection.h"
#include "comm/store/server.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

const std::string loopback = "127.0.0.1";
const std::vector<int> any_port{0};
const Credentials of_run{"run", "the run's secret"};

Deadline soon() {
  return Deadline::in(Seconds(5 * tests::slowness));
}

StoreClient connect_to(const StoreServer& server, const std::string& name = {}) {
  StoreClient client = StoreClient::connect(loopback, {server.port()}, of_run, soon());
  if (!name.empty()) CHECK_FALSE(client.claim(name + "'s place", name, soon()));
  return client;
}

UniqueFd foreign_connection(int port) {
  std::string obstacle;
  return connect_tcp(loopback, port, soon(), obstacle);
}

/// Says `bytes` on a connection. True when the server closed it in answer.
bool is_closed_after(const UniqueFd& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    if (send_some(socket.get(), bytes) == Transfer::closed) return true;
  }
  std::string reply;
  while (wait_for_socket(socket.get(), POLLIN, Deadline::in(Seconds(0.5)))) {
    if (receive_some(socket.get(), reply) == Transfer::closed) return true;
  }
  return false;
}

/// The same on a connection of its own.
bool is_closed_after(const StoreServer& server, const std::string& bytes) {
  return is_closed_after(foreign_connection(server.port()), bytes);
}

/// The same by somebody who has proved to be of the run.
bool is_member_closed_after(const StoreServer& server, std::string_view bytes) {
  Obstacle obstacle;
  Channel member = connect_proved(loopback, server.port(), TlsContext(of_run),
                                  {.purpose = std::string(store_purpose)}, soon(), obstacle);
  while (!bytes.empty()) {
    if (member.send_some(bytes) == Transfer::closed) return true;
  }
  std::string reply;
  while (wait_for_socket(member.fd(), POLLIN, Deadline::in(Seconds(0.5)))) {
    if (member.receive_some(reply) == Transfer::closed) return true;
  }
  return false;
}

/// Bytes in the form of a TLS handshake's record.
std::string tls_record(const std::string& content) {
  return std::string("\x16\x03\x01\0", 4) + static_cast<char>(content.size()) + content;
}

std::string with_length(Frame frame, std::uint32_t length) {
  std::string bytes = encode(frame);
  for (std::size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return bytes;
}

}  // namespace

TEST_CASE("the store keeps what it is told", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  StoreClient other = connect_to(server);
  CHECK_FALSE(client.get("a", soon()));
  client.set("a", std::string("x\0y", 3), soon());
  CHECK(other.get("a", soon()) == std::string("x\0y", 3));
  CHECK(other.wait("a", soon()) == std::string("x\0y", 3));
  CHECK(client.erase("a", soon()));
  CHECK_FALSE(other.erase("a", soon()));
  CHECK_FALSE(client.get("a", soon()));

  CHECK(client.add("n", 5, soon()) == 5);
  CHECK(other.add("n", -7, soon()) == -2);
  CHECK(client.get("n", soon()) == "-2");

  CHECK_FALSE(client.compare_and_set("c", "old", "new", soon()));
  CHECK(client.compare_and_set("c", std::nullopt, "first", soon()));
  CHECK_FALSE(other.compare_and_set("c", std::nullopt, "second", soon()));
  CHECK(other.compare_and_set("c", "first", "second", soon()));
  CHECK(client.get("c", soon()) == "second");
}

TEST_CASE("large values travel whole, larger ones are refused", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  std::string large(most_payload_bytes - 100, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761U >> 13 & 0xFF);
  client.set("large", large, soon());
  CHECK(client.get("large", soon()) == large);
  CHECK_THROWS_AS(client.set("large", large + std::string(200, 'x'), soon()), CommError);
  CHECK(client.get("large", soon()) == large);
}

TEST_CASE("wait ends when another client sets the key, or at its deadline", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient setter = connect_to(server);
  const auto errors = run_threads(2, [&](int rank) {
    if (rank == 1) return setter.set("late", "here", soon());
    if (connect_to(server).wait("late", soon()) != "here") throw std::runtime_error("wrong value");
  });
  CHECK(errors == std::vector<std::string>(2));

  StoreClient client = connect_to(server);
  const auto start = Clock::now();
  CHECK_THROWS_WITH(client.wait("never", Deadline::in(Seconds(0.1))),
                    "nobody set never in the store in time");
  const Seconds waited = Clock::now() - start;
  CHECK(waited >= Seconds(0.09));
  CHECK(waited < Seconds(tests::slowness));
  CHECK_FALSE(client.get("never", soon()));  // the connection is still good
}

TEST_CASE("numbered keys come together, when all are there, or as far as they are at the deadline",
          "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  using Values = std::vector<std::string>;
  client.set("k/0", "zero", soon());
  client.set("k/2", "", soon());
  CHECK(client.wait_for_each("k/", 0, 3, Deadline::in(Seconds(0.05))) == Values{"zero"});
  CHECK(client.wait_for_each("k/", 1, 3, Deadline::in(Seconds(0))).empty());
  std::thread other([&] {
    StoreClient setter = connect_to(server);
    setter.set("k/1", "one", soon());
  });
  CHECK(client.wait_for_each("k/", 0, 3, soon()) == Values{"zero", "one", ""});
  other.join();
}

TEST_CASE("numbered keys that are too long for one answer come in several", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  const std::string value(600'000, 'v');
  for (const char* key : {"k/0", "k/1", "k/2"}) client.set(key, value, soon());
  CHECK(client.wait_for_each("k/", 0, 3, soon()).size() == 1);
  client.set("k/0", std::string(most_payload_bytes - 11, 'v'), soon());
  CHECK(client.wait_for_each("k/", 0, 3, soon()).size() == 1);
  CHECK(client.wait_for_each("k/", 2, 3, soon()) == std::vector{value});
}

TEST_CASE("adds from many clients are all counted", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  const auto errors = run_threads(4, [&](int) {
    StoreClient client = connect_to(server);
    for (int i = 0; i < 200; ++i) client.add("sum", 1, soon());
  });
  CHECK(errors == std::vector<std::string>(4));
  CHECK(connect_to(server).get("sum", soon()) == "800");
}

TEST_CASE("unauthenticated connections are rejected and disturb no client", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  client.set("key", "value", soon());
  const Frame get{Frame::Type::get, FieldWriter().text("key").number(0).take()};

  CHECK(is_closed_after(server, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(is_closed_after(server, std::string(5000, '\xff')));
  CHECK(is_closed_after(server, encode(get)));
  CHECK(is_closed_after(server, tls_record("\x01 no hello")));

  CHECK(is_member_closed_after(server, with_length(get, 0xFFFFFFFF)));  // oversized
  CHECK(is_member_closed_after(server, encode({Frame::Type::set, "garbage"})));
  CHECK(is_member_closed_after(server, encode({Frame::Type::watch, "garbage"})));
  CHECK(is_member_closed_after(server, encode({Frame::Type::value, "x"})));  // no request
  CHECK(is_member_closed_after(server, encode({Frame::Type::hello, "again"})));
  CHECK_FALSE(is_member_closed_after(server, encode(get)));
  CHECK(client.get("key", soon()) == "value");
}

TEST_CASE("half-open connections hold up nobody", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(foreign_connection(server.port()));
  StoreClient client = connect_to(server);
  client.set("key", "value", soon());
  CHECK(client.get("key", soon()) == "value");
}

TEST_CASE("who says no hello in time is closed", "[store]") {
  const StoreServer server(loopback, any_port, of_run, Seconds(0.05));
  StoreClient client = connect_to(server);
  CHECK(is_closed_after(server, ""));
  CHECK(is_closed_after(server, tls_record("\x01 no hello").substr(0, 10)));
  client.set("key", "value", soon());  // a client that did may stay silent
}

TEST_CASE("the store takes the first free port and clients find it by its hello", "[store]") {
  const Credentials of_first{"first run", "first secret"};
  const Credentials of_second{"second run", "second secret"};
  const StoreServer first(loopback, any_port, of_first);
  const UniqueFd free_one = listen_tcp(loopback, 0);
  const int free_port = local_port(free_one.get());
  const StoreServer second(loopback, {first.port(), 0}, of_second);
  CHECK(second.port() != first.port());
  CHECK_THROWS_AS(StoreServer(loopback, {first.port()}, {"third run", "secret"}), DeviceError);

  StoreClient client =
      StoreClient::connect(loopback, {first.port(), free_port, second.port()}, of_second, soon());
  CHECK(client.port() == second.port());
  client.set("key", "second", soon());
  CHECK_FALSE(StoreClient::connect(loopback, {first.port()}, of_first, soon()).get("key", soon()));
  CHECK_THROWS_WITH(StoreClient::connect(loopback, {first.port()}, of_second, Deadline::in(Seconds(1))),
                    tests::contains("another run") && tests::contains("second run"));
}

TEST_CASE("who has another secret is told the hint", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  const auto message_with = [&](const std::string& secret) {
    return tests::message_of<CommError>([&] {
      StoreClient::connect(loopback, {server.port()}, {"run", secret}, Deadline::in(Seconds(1)));
    });
  };
  CHECK_THAT(message_with("a wrong secret"), tests::contains("LOCKSTEP_TOKEN"));
  CHECK_THAT(message_with("a wrong secret"), !tests::contains("a wrong secret"));
  CHECK_THAT(message_with(""), tests::contains("--insecure"));
}

TEST_CASE("a watched key is told once, beside other calls", "[store]") {
  const StoreServer server(loopback, any_port, of_run);
  StoreClient client = connect_to(server);
  StoreClient other = connect_to(server);
  client.watch("stop", soon());
  CHECK_FALSE(client.take_change());
  client.set("mine", "1", soon());
  other.set("stop", "now", soon());
  REQUIRE(wait_for_socket(client.fd(), POLLIN, soon()));
  const auto change = client.take_change();
  REQUIRE(change);
  CHECK(change->key == "stop");
  CHECK(change->value == "now");
  other.set("stop", "again", soon());
  CHECK(client.get("mine", soon()) == "1");
  CHECK_FALSE(client.take_change());

  client.watch("mine", soon());  // it is there already
  CHECK(client.wait("stop", soon()) == "again");
  CHECK(client.take_change()->value == "1");
}

TEST_CASE("the store tells whose connection broke, unless it said goodbye", "[store]") {
  StoreServer server(loopback, any_port, of_run);
  StoreClient watcher = connect_to(server);
  { const StoreClient early = connect_to(server, "rank 1"); }  // before anybody wants to know
  std::vector<std::string> lost;
  std::mutex mutex;
  std::condition_variable changed;
  server.on_lost([&](const std::string& name, const std::string& reason) {
    const std::lock_guard lock(mutex);
    lost.push_back(name + ": " + reason);
    changed.notify_one();
  });
  { const StoreClient nameless = connect_to(server); }
  connect_to(server, "rank 2").say_goodbye(soon());
  { const StoreClient late = connect_to(server, "rank 3"); }
  {
    std::unique_lock lock(mutex);
    changed.wait_until(lock, soon().when(), [&] { return lost.size() == 2; });
    CHECK(lost == std::vector<std::string>{"rank 1: its connection closed", "rank 3: its connection closed"});
  }
  server.on_lost({});
}

TEST_CASE("a client notices that the store is gone", "[store]") {
  auto server = std::make_unique<StoreServer>(loopback, any_port, of_run);
  StoreClient client = connect_to(*server);
  server.reset();
  CHECK_THROWS_AS(client.get("key", soon()), CommError);
  CHECK_THROWS_AS(client.get("key", soon()), CommError);
}
