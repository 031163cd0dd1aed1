// A port that a test gives to a program later must not be one that the kernel gives to a connection
// meanwhile.
#include "tests/support/unused_port.h"

#include <set>

#include "tests/support/catch.h"

using namespace lockstep;

TEST_CASE("an unused port is none of those that connections get, and another one each time") {
  std::set<int> ports;
  for (int i = 0; i < 20; ++i) {
    const int port = tests::unused_port();
    ports.insert(port);
    CHECK((port < tests::first_ephemeral_port() || tests::first_ephemeral_port() < 17384));
    CHECK(tests::is_unused(port));
  }
  CHECK(ports.size() > 10);
}

TEST_CASE("a port that is bound is not unused") {
  const int port = tests::unused_port();
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK_FALSE(tests::is_unused(port));
}
