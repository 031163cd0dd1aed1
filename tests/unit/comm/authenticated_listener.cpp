#include "comm/net/authenticated_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "comm/net/addresses.h"
#include "comm/net/handshake.h"
#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

const Credentials of_run{"run", "secret"};

Deadline soon() {
  return Deadline::in(Seconds(5));
}

Channel connect(const std::string& address, int port, const Credentials& credentials,
                Obstacle* obstacle = nullptr) {
  Obstacle ignored;
  return connect_proved(address, port, TlsContext(credentials), {.purpose = "link 1"}, soon(),
                        obstacle == nullptr ? ignored : *obstacle);
}

/// More than a listener keeps without a handshake, of one address or of all.
constexpr int crowd = 600;

/// A connection to 127.0.0.1 that says nothing yet.
UniqueFd connect_from(const std::string& source, int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  inet_pton(AF_INET, source.c_str(), &own.sin_addr);
  REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0);
  sockaddr_in remote{.sin_family = AF_INET,
                     .sin_port = htons(static_cast<std::uint16_t>(port)),
                     .sin_addr = {},
                     .sin_zero = {}};
  inet_pton(AF_INET, "127.0.0.1", &remote.sin_addr);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&remote), sizeof(remote)) == 0);
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

/// Whether the listener admits it.
bool finish_handshake(Handshake& client, AuthenticatedListener& listener) {
  std::optional<AuthenticatedConnection> connection;
  run_threads(2, [&](int rank) {
    if (rank == 0) connection = listener.admit(soon());
    while (rank == 1 && client.state() == Handshake::State::pending) {
      wait_for_socket(client.fd(), client.wanted_events(), client.deadline());
      client.advance();
    }
  });
  return connection && client.state() == Handshake::State::proved;
}

bool finish_handshake(UniqueFd socket, AuthenticatedListener& listener) {
  const TlsContext context(of_run);
  Handshake client(std::move(socket), context, Handshake::Role::client, {.purpose = "link 1"}, soon());
  return finish_handshake(client, listener);
}

bool can_listen_on(const std::string& address) {
  try {
    return static_cast<bool>(listen_tcp(address, 0));
  } catch (const DeviceError&) {
    return false;  // a machine without IPv6
  }
}

}  // namespace

TEST_CASE("a listener admits an authenticated connection past silent ones", "[listener]") {
  for (const std::string address : {"127.0.0.1", "::1"}) {
    if (!can_listen_on(address)) return tests::skip("this machine has no IPv6");
    AuthenticatedListener listener(listen_tcp(address, 0), of_run);
    std::string obstacle;
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 300; ++i) silent.push_back(connect_tcp(address, listener.port(), soon(), obstacle));
    std::optional<AuthenticatedConnection> connection;
    Channel own_end;
    const auto errors = run_threads(2, [&](int rank) {
      if (rank == 0) connection = listener.admit(soon());
      if (rank == 1) own_end = connect(address, listener.port(), of_run);
    });
    CHECK(errors == std::vector<std::string>(2));
    REQUIRE(connection);
    REQUIRE(own_end);
    CHECK(connection->purpose == "link 1");
    std::string_view word = "word";
    CHECK(connection->channel.send_some(word) == Transfer::some);
    REQUIRE(wait_for_socket(own_end.fd(), POLLIN, soon()));
    std::string heard;
    own_end.receive_some(heard);
    CHECK(heard == "word");
    CHECK_FALSE(listener.admit(Deadline::in(Seconds(0.05))));
  }
}

TEST_CASE("a listener turns away who has another secret", "[listener]") {
  AuthenticatedListener listener(listen_tcp("127.0.0.1", 0), of_run);
  std::optional<AuthenticatedConnection> connection;
  Channel own_end;
  Obstacle obstacle;
  run_threads(2, [&](int rank) {
    if (rank == 0) connection = listener.admit(Deadline::in(Seconds(0.5)));
    if (rank == 1) own_end = connect("127.0.0.1", listener.port(), {"run", "wrong"}, &obstacle);
  });
  CHECK_FALSE(connection);
  CHECK_FALSE(own_end);
  CHECK_THAT(obstacle.text, tests::contains("--token-file"));
  CHECK_FALSE(obstacle.is_final);
}

TEST_CASE("a slow rank keeps its place while strangers of another address crowd in", "[listener]") {
  AuthenticatedListener listener(listen_tcp("127.0.0.1", 0), of_run);
  UniqueFd slow = connect_from("127.0.0.1", listener.port());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < crowd; ++i) strangers.push_back(connect_from("127.0.0.2", listener.port()));
  CHECK_FALSE(listener.admit(Deadline::in(Seconds(0.2))));
  CHECK(finish_handshake(std::move(slow), listener));
}

TEST_CASE("who has shown the secret is pushed out by nobody", "[listener]") {
  AuthenticatedListener listener(listen_tcp("127.0.0.1", 0), of_run);
  const TlsContext context(of_run);
  Handshake slow(connect_from("127.0.0.1", listener.port()), context, Handshake::Role::client,
                 {.purpose = "link 1"}, soon());
  slow.advance();
  CHECK_FALSE(listener.admit(Deadline::in(Seconds(0.2))));
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < crowd; ++i) strangers.push_back(connect_from("127.0.0.1", listener.port()));
  CHECK_FALSE(listener.admit(Deadline::in(Seconds(0.2))));
  CHECK(finish_handshake(slow, listener));
}

TEST_CASE("the store serves over IPv6", "[listener]") {
  if (!can_listen_on("::1")) return tests::skip("this machine has no IPv6");
  const StoreServer server("::1", {0}, of_run);
  StoreClient client = StoreClient::connect("::1", {server.port()}, of_run, soon());
  client.set("key", "value", soon());
  CHECK(client.get("key", soon()) == "value");
  CHECK(client.own_address() == "::1");
}

TEST_CASE("a store takes more clients than the soft limit of descriptors has room for", "[listener]") {
  RankProcess holder([] {
    constexpr rlim_t soft = 32;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &limit);
    const StoreServer server("127.0.0.1", {0}, of_run);
    std::vector<StoreClient> clients;  // both ends of each are here
    while (clients.size() < soft) {
      clients.push_back(StoreClient::connect("127.0.0.1", {server.port()}, of_run, soon()));
      clients.back().set("key", "value", soon());
    }
  });
  CHECK(holder.outcome().empty());
}

TEST_CASE("a port tells of what goes on in longer and longer pauses, and of a new reason at once", "[tcp]") {
  constexpr Seconds nothing_to_tell{60};
  RejectionLog log("store");
  log.add("its secret is another", "10.0.0.1:1");
  CHECK(log.time_left() > nothing_to_tell);
  log.add("its secret is another", "10.0.0.1:2");
  CHECK(log.time_left() <= Seconds(1));
  while (log.time_left() < nothing_to_tell) {
    poll(nullptr, 0, 1);
    log.write_when_due();
  }
  log.add("its secret is another", "10.0.0.1:3");
  CHECK(log.time_left() > Seconds(1.5));
  log.add("no handshake in time", "10.0.0.1:4");
  CHECK(log.time_left() > nothing_to_tell);
}

TEST_CASE("a port range that is used up is named", "[tcp]") {
  const UniqueFd taken = listen_tcp("127.0.0.1", 0);
  const int port = local_port(taken.get());
  const std::string message =
      tests::message_of<DeviceError>([&] { listen_in_range("127.0.0.1", port, port); });
  CHECK_THAT(message, tests::contains("--port-range"));
  CHECK_THAT(message, tests::contains(std::to_string(port)));
  CHECK(listen_in_range("127.0.0.1", 0, 0));
  CHECK_THROWS_AS(listen_tcp("192.0.2.1", 0), DeviceError);  // not this machine's
}

TEST_CASE("a name that does not resolve is tried until the deadline", "[tcp]") {
  const auto start = Clock::now();
  const std::string message = tests::message_of<CommError>(
      [] { StoreClient::connect("no-such-host.invalid", {29500}, of_run, Deadline::in(Seconds(0.3))); });
  CHECK_THAT(message, tests::contains("no-such-host.invalid"));
  CHECK(Clock::now() - start >= Seconds(0.29));
  CHECK(Clock::now() - start < Seconds(3));  // a slow name server does not hold it up
}

TEST_CASE("an interface is a device or an address of this machine", "[tcp]") {
  CHECK(address_of_interface("lo") == "127.0.0.1");
  CHECK(address_of_interface("127.0.0.1") == "127.0.0.1");
  CHECK(device_of_interface("lo") == "lo");
  CHECK(device_of_interface("127.0.0.1") == "lo");
  CHECK_THAT(tests::message_of<UsageError>([] { address_of_interface("no-such-device"); }),
             tests::contains("lo (127.0.0.1)"));
  CHECK(address_facing("127.0.0.1") == "127.0.0.1");
  CHECK(is_own_address("127.0.0.1", soon()));
  CHECK_FALSE(is_own_address("192.0.2.1", soon()));
  CHECK(is_own_address(main_address(), soon()));
}

TEST_CASE("a link-local address is called by the own interface, or refused with the reason", "[tcp]") {
  CHECK(is_link_local_address("fe80::1%eth0"));
  CHECK(is_link_local_address("febf::1"));
  for (const char* other : {"fd00::1", "::1", "10.0.0.1", "host", "fec0::1"})
    CHECK_FALSE(is_link_local_address(other));
  CHECK(as_seen_from("fe80::2%ib1", "fe80::1%eth0") == "fe80::1%ib1");
  CHECK(as_seen_from("fe80::2%ib1", "10.0.0.1") == "10.0.0.1");
  CHECK_THAT(tests::message_of<CommError>([] { as_seen_from("10.0.0.2", "fe80::1%eth0"); }),
             tests::contains("--interface"));
  require_interface_in("fe80::1%eth0");
  CHECK_THAT(tests::message_of<UsageError>([] { require_interface_in("fe80::1"); }),
             tests::contains("fe80::1%eth0"));
}
