// A kernel without IPv6, and a name that has an address of each family.
#include <netdb.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>

#include "comm/net/tcp.h"
#include "kernels/base/error.h"
#include "tests/fault/preloaded.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace {

constexpr const char* of_both = "both.invalid";

/// In which order `of_both` has them.
std::atomic<bool> ipv6_is_first = true;

/// Numeric addresses of both families, one behind the other.
addrinfo* chain(const char* first, const char* second, const char* service, const addrinfo* hints) {
  addrinfo* all = nullptr;
  NEXT(getaddrinfo)(first, service, hints, &all);
  NEXT(getaddrinfo)(second, service, hints, &all->ai_next);
  return all;
}

}  // namespace

extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (domain != AF_INET6) return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  errno = EAFNOSUPPORT;
  return -1;
}

extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** result) {
  const bool is_numeric = (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (is_numeric || std::string_view(name) != of_both) return NEXT(getaddrinfo)(name, service, hints, result);
  *result =
      ipv6_is_first ? chain("::1", "127.0.0.1", service, hints) : chain("127.0.0.1", "::1", service, hints);
  return 0;
}

namespace lockstep::comm {
namespace {

Deadline soon() {
  return Deadline::in(Seconds(5));
}

TEST_CASE("a name is listened on and found by the address whose family the kernel has") {
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    ipv6_is_first = is_first;
    const UniqueFd listener = listen_tcp(of_both, 0);
    REQUIRE(listener);
    const int port = local_port(listener.get());
    std::string obstacle;
    CHECK(connect_tcp(of_both, port, soon(), obstacle));
    CHECK_FALSE(listen_tcp(of_both, port));  // taken
  }
}

TEST_CASE("an address whose family the kernel lacks is an obstacle, and hides no other") {
  std::string obstacle = "of another try";
  CHECK_FALSE(connect_tcp("::1", 9, soon(), obstacle));
  CHECK(obstacle == errno_message(EAFNOSUPPORT));
  CHECK_THAT(tests::message_of<DeviceError>([] { listen_tcp("::1", 0); }),
             tests::contains("cannot listen on [::1]:0: " + errno_message(EAFNOSUPPORT)));
  UniqueFd listener = listen_tcp("127.0.0.1", 0);
  const int port = local_port(listener.get());
  listener.reset();
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    ipv6_is_first = is_first;
    CHECK_FALSE(connect_tcp(of_both, port, soon(), obstacle));
    CHECK(obstacle == "nothing listens there");
  }
}

}  // namespace
}  // namespace lockstep::comm
