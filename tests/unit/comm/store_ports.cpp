// A client that looks for the store at many ports, and what is said of them.
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/net/addresses.h"
#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/slowness.h"
#include "tests/support/unused_port.h"

namespace lockstep::comm {
namespace {

using tests::contains;

const std::string loopback = "127.0.0.1";
const Credentials of_run{"run", "the run's secret"};

/// The log of the process, while it lives.
class Log {
 public:
  Log() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

/// Has a port, and closes whatever connects there.
class Stranger {
 public:
  Stranger() : listener_(listen_tcp(loopback, 0)), thread_(&Stranger::serve, this) {}
  ~Stranger() {
    is_over_ = true;
    thread_.join();
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  int port() const { return local_port(listener_.get()); }
  int visits() const { return visits_; }

 private:
  void serve() {
    while (!is_over_) {
      if (!wait_for_socket(listener_.get(), POLLIN, Deadline::in(Seconds(0.05)))) continue;
      if (accept_tcp(listener_.get())) ++visits_;
    }
  }

  UniqueFd listener_;
  std::atomic<int> visits_ = 0;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

TEST_CASE("ports are shown as ranges, however many they are", "[store]") {
  CHECK(name_of_ports({29500}) == "29500");
  CHECK(name_of_ports({20000, 20001, 20002, 29500}) == "20000-20002, 29500");
  std::vector<int> odd;
  for (int port = 20001; port < 40000; port += 2) odd.push_back(port);
  CHECK_THAT(name_of_ports(odd), Catch::Matchers::StartsWith("20001, 20003, ") && contains(", ..."));
  CHECK(name_of_ports(odd).size() < 220);
}

TEST_CASE("the store is found at any port of a wide range", "[store]") {
  const StoreServer server(loopback, {0}, of_run);
  const auto place =
      GENERATE(std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{1000}, std::size_t{1999});
  std::vector<int> ports(2000, tests::unused_port());
  ports[place] = server.port();
  const Deadline soon = Deadline::in(Seconds(10 * tests::slowness));
  CHECK(StoreClient::connect(loopback, ports, of_run, soon).port() == server.port());
}

TEST_CASE("what is in the way at a wide range is one line", "[store]") {
  std::vector<int> ports(2000);
  std::iota(ports.begin(), ports.end(), 10000);
  const std::string message = tests::message_of<CommError>(
      [&] { StoreClient::connect(loopback, ports, of_run, Deadline::in(Seconds(0.3))); });
  CHECK_THAT(message, contains("no store of run run at 127.0.0.1, port 10000-11999: ") &&
                          contains("nothing listens there"));
  CHECK(message.size() < 1000);
}

TEST_CASE("an obstacle at the only port has no port before it, and no advice but its own") {
  const StoreServer server(loopback, {0}, of_run);
  const Credentials other{"run", "another secret"};
  const std::string message = tests::message_of<CommError>(
      [&] { StoreClient::connect(loopback, {server.port()}, other, Deadline::in(Seconds(0.3))); });
  CHECK(message == fmt::format("no store of run run at 127.0.0.1, port {}: {}", server.port(), wrong_secret));
}

TEST_CASE("the first ports of a wide range are asked again, and spoken of, before all others were asked",
          "[store]") {
  const Stranger first;
  const UniqueFd silent = listen_tcp(loopback, 0);
  std::vector<int> ports{first.port()};
  while (ports.size() < 8) ports.push_back(tests::unused_port());
  ports.resize(400, local_port(silent.get()));
  const Log log;
  const std::string message = tests::message_of<CommError>(
      [&] { StoreClient::connect(loopback, ports, of_run, Deadline::in(Seconds(3))); });
  CHECK_THAT(message, contains("no store of run run at 127.0.0.1"));
  CHECK(first.visits() >= 2);
  CHECK_THAT(log.text(), contains(fmt::format("{}: ", first.port())) && contains("; trying on"));
}

}  // namespace
}  // namespace lockstep::comm
