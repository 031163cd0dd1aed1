#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <new>
#include <thread>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "comm/net/tcp.h"
#include "comm/store/client.h"
#include "comm/store/server.h"
#include "comm/watchdog/heartbeats.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/nodes.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

constexpr Seconds timeout{4};
constexpr Seconds patience{20};

/// What the ranks' processes and the test share.
struct Progress {
  std::atomic<bool> ends;
  std::array<std::atomic<int>, 8> rounds;

  static Progress& make() {
    void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Progress();
  }
};

/// A world of several nodes whose ranks, a process each, exchange in every way until they are told to end.
class Ranks {
 public:
  explicit Ranks(const std::vector<int>& nodes) {
    const std::string run_id = fresh_run_id();
    const int port = unused_port();
    for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
      processes_.emplace_back([=, this] { exchange(*join_nodes(rank, nodes, run_id, port, timeout)); });
    }
    require_progress();
  }
  ~Ranks() { munmap(&progress_, sizeof(progress_)); }

  void suspend(const std::vector<int>& ranks, Seconds time) {
    send(SIGSTOP, ranks);
    std::this_thread::sleep_for(time);
    send(SIGCONT, ranks);
    require_progress();
  }

  void send(int signal_number, const std::vector<int>& ranks) {
    for (const int rank : ranks) process(rank).signal(signal_number);
  }

  /// Tells them to end, one of them suspended meanwhile.
  void end_suspended(int rank, Seconds time) {
    send(SIGSTOP, {rank});
    progress_.ends = true;
    std::this_thread::sleep_for(time);
    send(SIGCONT, {rank});
  }
  std::string outcome_of(int rank) { return process(rank).outcome(); }

 private:
  RankProcess& process(int rank) { return processes_[static_cast<std::size_t>(rank)]; }

  void exchange(Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1000);
    NoStream stream;
    try {
      for (double ends[] = {0.0}; ends[0] == 0;) {
        group.all_reduce({arena.get(), 0, 1000}, {.bucket = 0, .what = "w"}, stream);
        ends[0] = progress_.ends && group.world().rank == 0 ? 1 : 0;
        group.all_reduce_sum(ends);
        ++progress_.rounds[static_cast<std::size_t>(group.world().rank)];
      }
    } catch (const CommError&) {
      const FailureReport report = group.failure_report().value();
      throw std::runtime_error(fmt::format("missing {}; prints: {}", fmt::join(report.missing, " "),
                                           report.claim() || report.claim()));
    }
  }

  /// All ranks make rounds that begin from now on.
  void require_progress() {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      const int before = progress_.rounds[rank];
      for (const Deadline end = Deadline::in(patience); progress_.rounds[rank] < before + 2;) {
        if (end.passed()) FAIL("rank " << rank << " makes no rounds");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the ranks need the cores
      }
    }
  }

  Progress& progress_ = Progress::make();
  std::vector<RankProcess> processes_;
};

}  // namespace

TEST_CASE("a full buffer is no dead link", "[comm]") {
  const UniqueFd listener = listen_tcp("127.0.0.1", 0);
  std::string obstacle;
  const UniqueFd writer =
      connect_tcp("127.0.0.1", local_port(listener.get()), Deadline::in(patience), obstacle);
  const UniqueFd reader = accept_tcp(listener.get());
  const std::string bytes(std::size_t{32} << 20, 'x');
  std::string_view left = bytes;
  const auto fill = [&] {
    while (true) {
      const Transfer transfer = send_some(writer.get(), left);
      if (transfer != Transfer::some) return transfer;
    }
  };
  // Longer than the 3 s that a dead link may last.
  for (const Deadline end = Deadline::in(Seconds(4)); !end.passed();) {
    REQUIRE(fill() == Transfer::nothing_yet);
    wait_for_socket(writer.get(), POLLOUT, Deadline::in(Seconds(0.5)));
    REQUIRE_FALSE(is_link_dead(writer.get()));
  }
}

TEST_CASE("a late answer is dropped, and the connection stays", "[comm]") {
  const int port = unused_port();
  const Credentials of_run{.run_id = fresh_run_id(), .secret = "the secret of the run"};
  RankProcess holder([&] {
    const StoreServer server("127.0.0.1", {port}, of_run);
    pause();
  });
  StoreClient client = StoreClient::connect("127.0.0.1", {port}, of_run, Deadline::in(patience));
  client.set("key", "first", Deadline::in(patience));
  holder.signal(SIGSTOP);
  const Deadline late = Deadline::in(Seconds(0.1));
  CHECK_THROWS_AS(client.get("key", late), CommError);
  CHECK_FALSE(client.wait_for("other key", late));
  client.post("key", "second");
  CHECK_FALSE(client.has_all_answers());
  holder.signal(SIGCONT);
  CHECK(client.get("key", Deadline::in(patience)) == "second");
  CHECK(client.has_all_answers());
}

TEST_CASE("a pause leaves no trace, and a kill after it has one report that names the killed alone",
          "[comm]") {
  Ranks world({0, 0, 1, 1});
  for (const double seconds : {0.3, 0.6, 1.6, 3.0}) {
    for (const std::vector<int>& those : {std::vector{0}, {3}, {0, 2}, {0, 1, 2, 3}}) {
      CAPTURE(seconds, those);
      world.suspend(those, Seconds(seconds));
    }
  }
  world.send(SIGKILL, {3});
  CHECK(world.outcome_of(0) == "missing 3; prints: true");
  CHECK(world.outcome_of(1) == "missing 3; prints: false");
  CHECK(world.outcome_of(2) == "missing 3; prints: false");
}

TEST_CASE("a pause does not keep ranks from leaving", "[comm]") {
  Ranks world({0, 1, 1});
  world.end_suspended(0, Seconds(1.6));
  for (const int rank : {0, 1, 2}) CHECK(world.outcome_of(rank).empty());
}

TEST_CASE("when the store goes with its rank, the lowest living rank alone reports", "[comm]") {
  SECTION("it is on the same node") {
    Ranks world({0, 0, 1, 2});
    world.suspend({0}, Seconds(1.6));
    world.send(SIGKILL, {0});
    CHECK(world.outcome_of(1) == "missing 0; prints: true");
    CHECK(world.outcome_of(2) == "missing 0; prints: false");
    CHECK(world.outcome_of(3) == "missing 0; prints: false");
  }
  SECTION("it is on another node") {
    Ranks world({0, 1, 2, 2});
    world.suspend({0, 2}, Seconds(1.6));
    world.send(SIGKILL, {0});
    CHECK(world.outcome_of(1) == "missing 0; prints: true");
    CHECK(world.outcome_of(2) == "missing 0; prints: false");
    CHECK(world.outcome_of(3) == "missing 0; prints: false");
  }
  SECTION("the whole node is gone") {
    Ranks world({0, 0, 1, 2});
    world.send(SIGKILL, {0, 1});
    CHECK(world.outcome_of(2) == "missing 0 1; prints: true");
    CHECK(world.outcome_of(3) == "missing 0 1; prints: false");
  }
}

TEST_CASE("a rank that stays suspended is named, rank 0 too", "[comm]") {
  const int suspended = GENERATE(0, 2);
  Ranks world({0, 1, 1});
  world.send(SIGSTOP, {suspended});
  for (const int rank : {0, 1, 2}) {
    if (rank == suspended) continue;
    const bool is_lowest = rank == (suspended == 0 ? 1 : 0);
    CHECK(world.outcome_of(rank) == fmt::format("missing {}; prints: {}", suspended, is_lowest));
  }
}

TEST_CASE("the lowest rank that is heard tells of silent ones, once per pause", "[comm]") {
  constexpr int ranks = 4;
  std::array<std::uint64_t, ranks> beats{};
  std::array<bool, ranks> knows{true, true, true, true};
  std::vector<Heartbeats> all;
  for (int rank = 0; rank < ranks; ++rank) all.emplace_back(rank, ranks);
  const Clock::time_point start = Clock::now();
  int second = 0;
  /// What is told in so many seconds in which only `beating` ranks are up.
  const auto told_in = [&](int seconds, const std::vector<int>& beating) {
    std::vector<std::string> told;
    for (const int end = second + seconds; second < end; ++second) {
      for (const int rank : beating) ++beats[static_cast<std::size_t>(rank)];
      for (const int rank : beating) {
        const std::string text = all[static_cast<std::size_t>(rank)].look(
            start + std::chrono::seconds(second), [&](int other) -> std::optional<RankStatus> {
              if (!knows[static_cast<std::size_t>(other)]) return std::nullopt;
              return RankStatus{.rank = other, .beat = beats[static_cast<std::size_t>(other)]};
            });
        if (!text.empty()) told.push_back(fmt::format("{}> {}", rank, text));
      }
    }
    return told;
  };
  using Lines = std::vector<std::string>;
  CHECK(told_in(5, {0, 1, 2, 3}).empty());
  CHECK(told_in(10, {0, 1, 3}) == Lines{"0> rank 2: no heartbeat for 2.0 s"});
  CHECK(told_in(5, {0, 1, 2, 3}).empty());
  CHECK(told_in(10, {1, 2, 3}) == Lines{"1> rank 0: no heartbeat for 2.0 s"});
  CHECK(told_in(5, {0, 1, 2, 3}).empty());
  CHECK(told_in(10, {2, 3}) == Lines{"2> ranks 0, 1: no heartbeat for 4.0 s"});
  // All were suspended: none has missed another's heartbeat.
  second += 100;
  CHECK(told_in(5, {0, 1, 2, 3}).empty());
  // Rank 0 holds the store, without which nothing is known of the others.
  knows = {false, false, false, false};
  CHECK(told_in(10, {1}) == Lines{"1> rank 0: no heartbeat for 2.0 s"});
}
