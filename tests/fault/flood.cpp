// A process that makes 5,000 connections a second to rank 0's store while the ranks of a run join.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "comm/tcp/mesh.h"
#include "kernels/base/log.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

constexpr int ranks = 64;
constexpr int connections_a_second = 5000;
constexpr std::size_t most_open = 500;
constexpr std::chrono::milliseconds between_joins{50};
const std::string loopback = "127.0.0.1";

Deadline soon() {
  return Deadline::in(Seconds(60));
}

/// A number that a child process counts up.
class SharedCount {
 public:
  SharedCount() : count_(new (map()) std::atomic<int>(0)) {}
  ~SharedCount() { munmap(count_, sizeof(*count_)); }
  SharedCount(const SharedCount&) = delete;
  std::atomic<int>& operator*() const { return *count_; }

 private:
  static void* map() {
    return mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  std::atomic<int>* count_;
};

/// What this process logs meanwhile goes to a file.
class LogToFile {
 public:
  explicit LogToFile(std::filesystem::path path) : path_(std::move(path)), stderr_(dup(STDERR_FILENO)) {
    const UniqueFd file(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    dup2(file.get(), STDERR_FILENO);
  }
  ~LogToFile() { dup2(stderr_.get(), STDERR_FILENO); }
  LogToFile(const LogToFile&) = delete;

  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

 private:
  std::filesystem::path path_;
  UniqueFd stderr_;
};

/// Some say nothing, some say what is no handshake; the last ones stay open.
[[noreturn]] void knock(int port, std::atomic<int>& made) {
  std::deque<UniqueFd> open;
  const auto start = Clock::now();
  for (int i = 0;; ++i) {
    std::this_thread::sleep_until(start + std::chrono::microseconds(1'000'000LL * i / connections_a_second));
    std::string obstacle;
    UniqueFd socket = connect_tcp(loopback, port, Deadline::in(Seconds(1)), obstacle);
    if (!socket) continue;
    // Closed by a reset, so that the ports do not run out.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    std::string_view words = "GET / HTTP/1.1\r\n\r\n";
    if (i % 4 == 0) send_some(socket.get(), words);
    open.push_back(std::move(socket));
    if (open.size() > most_open) open.pop_front();
    ++made;
  }
}

}  // namespace

TEST_CASE("a run of 64 ranks comes together in a flood of connections", "[fault]") {
  const tests::TemporaryFolder folder;
  const Credentials credentials{.run_id = fresh_run_id(), .secret = std::string(64, 's')};
  set_up_log(0, 1);
  const LogToFile log_file(folder / "log");
  const auto start = Clock::now();
  const SharedCount knocks;
  std::vector<std::string> errors;
  std::string lost;
  {
    UniqueFd listener = listen_tcp(loopback, 0);
    // Forked before there are threads, which might hold a lock at that moment.
    const RankProcess stranger([&] { knock(local_port(listener.get()), *knocks); });
    StoreServer server(std::move(listener), credentials);
    for (const Deadline end = soon(); *knocks < connections_a_second / 10; std::this_thread::yield()) {
      if (end.passed()) FAIL("only " << *knocks << " connections came");
    }
    std::mutex mutex;
    server.on_lost([&](const std::string& name, const std::string& reason) {
      const std::lock_guard lock(mutex);
      lost += name + ": " + reason + "\n";
    });
    const auto first_join = Clock::now();
    errors = run_threads(ranks, [&](int rank) {
      std::this_thread::sleep_until(first_join + rank * between_joins);
      StoreClient store = StoreClient::connect(loopback, {server.port()}, credentials, soon());
      store.claim("rank/" + std::to_string(rank), "rank " + std::to_string(rank), soon());
      StoreClient status = StoreClient::connect(loopback, {server.port()}, credentials, soon());
      exchange_peer_info(store, rank, ranks, {.node = "node", .host = "host"}, soon());
      status.add("joined", 1, soon());
      store.say_goodbye(soon());
    });
    StoreClient after = StoreClient::connect(loopback, {server.port()}, credentials, soon());
    CHECK(after.get("joined", soon()) == std::to_string(ranks));
    server.on_lost({});
  }
  const Seconds took = Clock::now() - start;
  const std::vector<std::string> lines = log_file.lines();
  const auto of_store = std::ranges::count_if(
      lines, [](const std::string& line) { return line.find("store: closed") != std::string::npos; });
  UNSCOPED_INFO(*knocks << " connections in " << took.count() << " s, " << of_store
                        << " lines, the last: " << (lines.empty() ? "none" : lines.back()));
  CHECK(errors == std::vector<std::string>(ranks));
  CHECK(lost == "");
  CHECK(of_store >= 1);
  CHECK(static_cast<double>(of_store) <= took.count() + 2);
}
