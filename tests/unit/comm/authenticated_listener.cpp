#include "comm/net/authenticated_listener.h"

#include <poll.h>

#include "comm/net/addresses.h"
#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

const Credentials of_run{"run", "secret"};

Deadline soon() {
  return Deadline::in(Seconds(5));
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
    if (!can_listen_on(address)) continue;
    AuthenticatedListener listener(listen_tcp(address, 0), of_run);
    std::string obstacle;
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 300; ++i) silent.push_back(connect_tcp(address, listener.port(), soon(), obstacle));
    std::optional<AuthenticatedConnection> connection;
    UniqueFd own_end;
    const auto errors = run_threads(2, [&](int rank) {
      if (rank == 0) connection = listener.admit(soon());
      if (rank == 1) own_end = connect_proved(address, listener.port(), of_run, "link 1", soon(), obstacle);
    });
    CHECK(errors == std::vector<std::string>(2));
    REQUIRE(connection);
    REQUIRE(own_end);
    CHECK(connection->purpose == "link 1");
    std::string_view word = "word";
    CHECK(send_some(connection->socket.get(), word) == Transfer::some);
    REQUIRE(wait_for_socket(own_end.get(), POLLIN, soon()));
    std::string heard;
    receive_some(own_end.get(), heard);
    CHECK(heard == "word");
    CHECK_FALSE(listener.admit(Deadline::in(Seconds(0.05))));
  }
}

TEST_CASE("a listener turns away who has another secret", "[listener]") {
  AuthenticatedListener listener(listen_tcp("127.0.0.1", 0), of_run);
  std::optional<AuthenticatedConnection> connection;
  UniqueFd own_end;
  std::string obstacle;
  run_threads(2, [&](int rank) {
    if (rank == 0) connection = listener.admit(Deadline::in(Seconds(0.5)));
    if (rank == 1) {
      own_end = connect_proved("127.0.0.1", listener.port(), {"run", "wrong"}, "link 1", soon(), obstacle);
    }
  });
  CHECK_FALSE(connection);
  CHECK_FALSE(own_end);
  CHECK_THAT(obstacle, tests::contains("--token-file"));
}

TEST_CASE("the store serves over IPv6", "[listener]") {
  if (!can_listen_on("::1")) return;
  const StoreServer server("::1", {0}, of_run);
  StoreClient client = StoreClient::connect("::1", {server.port()}, of_run, soon());
  client.set("key", "value", soon());
  CHECK(client.get("key", soon()) == "value");
  CHECK(client.own_address() == "::1");
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
  CHECK_THAT(tests::message_of<UsageError>([] { address_of_interface("no-such-device"); }),
             tests::contains("lo (127.0.0.1)"));
  CHECK(address_facing("127.0.0.1") == "127.0.0.1");
  CHECK(is_own_address("127.0.0.1"));
  CHECK_FALSE(is_own_address("192.0.2.1"));
  CHECK(is_own_address(main_address()));
}
