#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "comm/watchdog/failure_report.h"
#include "comm/watchdog/watchdog.h"
#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/slowness.h"
#include "tests/unit/comm/nodes.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using lockstep::tests::contains;

TEST_CASE("a status survives its text, and a cut one is no status", "[comm]") {
  const RankStatus status{.rank = 3,
                          .host = "gpu07",
                          .pid = 4711,
                          .beat = 9,
                          .call = 17,
                          .last = true,
                          .progress = 35,
                          .where = "step 12, fc1 linear"};
  const auto read = parse_status(to_text(status));
  REQUIRE(read);
  CHECK(read->rank == 3);
  CHECK(read->host == "gpu07");
  CHECK(read->pid == 4711);
  CHECK(read->beat == 9);
  CHECK(read->call == 17);
  CHECK(read->last);
  CHECK(read->progress == 35);
  CHECK(read->where == "step 12, fc1 linear");
  CHECK_FALSE(parse_status(to_text(status).substr(0, 8)));
  CHECK_FALSE(parse_status(""));
  CHECK(to_text({.where = std::string(1000, 'x')}).size() == most_status_bytes);
}

TEST_CASE("however many ranks a final status calls lost, its other fields survive", "[comm]") {
  const auto read = [](const std::vector<int>& lost) {
    const auto status = parse_status(to_text({.rank = 3,
                                              .host = std::string(64, 'h'),
                                              .pid = 4711,
                                              .last = true,
                                              .lost = lost,
                                              .progress = 35,
                                              .where = std::string(1000, 'x')}));
    REQUIRE(status);
    CHECK(status->last);
    CHECK(status->progress == 35);
    return status->lost;
  };
  std::vector<int> neighbours(400);
  std::iota(neighbours.begin(), neighbours.end(), 100);
  neighbours.push_back(0);  // as one that holds the store and does not answer
  CHECK(read(neighbours) == neighbours);
  std::vector<int> scattered;
  for (int rank = 100; rank < 500; rank += 2) scattered.push_back(rank);
  const auto known = read(scattered);
  CHECK(known.size() >= 40);
  CHECK(known == std::vector<int>(scattered.begin(), scattered.begin() + std::ssize(known)));
  for (const char* malformed : {"-5", "9-", "-", "9-5", "0-2147483647", "99999999999"}) {
    CAPTURE(malformed);
    const auto status = parse_status(fmt::format("3\thost\t1\t1\t1\t1\t{},7\t0\tnowhere", malformed));
    REQUIRE(status);
    CHECK(status->lost == std::vector{7});
  }
}

TEST_CASE("a stopped rank is missing in the report, and every other rank is located", "[comm]") {
  const std::string run_id = fresh_run_id();
  const auto rank = [&](int index) {
    return RankProcess([=] {
      const auto group = make_communicator(local_world(index, 3, run_id), {.timeout = Seconds(1.5)});
      group->watch({.position = [=] { return fmt::format("step {}", index); }});
      group->barrier();
      if (index == 2) raise(SIGSTOP);
      try {
        group->barrier();
      } catch (const CommError&) {
        throw std::runtime_error(group->failure_report()->text());
      }
    });
  };
  RankProcess first = rank(0);
  RankProcess second = rank(1);
  RankProcess third = rank(2);
  for (RankProcess* survivor : {&first, &second}) {
    const std::string report = survivor->outcome();
    CHECK_THAT(report, contains("rank 2 did not reach barrier 2 within 1.5 s"));
    CHECK_THAT(report, contains("): step 0; in barrier 2\n") && contains("): step 1; in barrier 2\n"));
    CHECK_THAT(report,
               contains(fmt::format("rank 2 (pid {} on ", third.pid())) && contains("no answer; last seen"));
  }
}

TEST_CASE("a rank that does not leave after a failure is told so", "[comm]") {
  std::atomic<int> told{0};
  const auto errors = run_thread_ranks(2, {.timeout = Seconds(10)}, [&](Communicator& group) {
    std::promise<std::string> cause;
    group.watch({.position = {},
                 .overdue = [&](const FailureReport& report) { cause.set_value(report.cause); },
                 .grace = Seconds(0.1)});
    if (group.world().rank == 1) group.abort("no more data");
    if (cause.get_future().get() == "rank 1: no more data") ++told;
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(told == 2);
}

namespace {

/// Rank 1, whose group has failed if `is_aborted`.
class FailedNode final : public NodeStatus {
 public:
  int rank() const override { return 1; }
  std::uint32_t call_number() const override { return 7; }
  std::string describe_call() const override { return "in barrier 7"; }
  bool aborted() const noexcept override { return is_aborted; }
  std::string abort_reason() const override { return "rank 0 closed its connection"; }
  bool claim_report() noexcept override { return true; }
  void publish_status(std::string_view text) noexcept override {
    const std::lock_guard lock(mutex_);
    status_ = text;
  }
  std::optional<std::string> read_status(int rank) const override {
    const std::lock_guard lock(mutex_);
    if (rank == 1) return status_;
    return rank == 0 ? final_status_of_0 : std::nullopt;
  }
  bool has_lost(int rank) const override { return rank == 0 && has_lost_0; }

  std::optional<std::string> final_status_of_0;  ///< where it is of this node
  bool has_lost_0 = false;
  bool is_aborted = true;

 private:
  mutable std::mutex mutex_;
  std::string status_;
};

/// The store has gone with rank 0.
class SilentRanks : public RemoteStatus {
 public:
  void publish_heartbeat(const std::string&) noexcept override {}
  void publish_final_status(const std::string&) noexcept override {}
  std::optional<std::string> read_status(int) noexcept override { return std::nullopt; }
  std::string publish_abort(const std::string& reason) noexcept override { return reason; }
  std::vector<int> lost_ranks() noexcept override { return {0}; }
  bool claim_report(const std::string&) noexcept override { return true; }
};

}  // namespace

TEST_CASE("ranks are behind whose statuses tell of an earlier call, not those of which none is known",
          "[comm]") {
  struct Statuses final : public SilentRanks {
    std::optional<std::string> read_status(int rank) noexcept override {
      const auto in_call = [&](std::uint32_t call) {
        return to_text({.rank = rank, .host = "host", .pid = 1, .call = call});
      };
      switch (rank) {
        case 0:
          return in_call(7);
        case 2:
          return in_call(6);
        case 3:
          return in_call(8);
        case 4:
          return in_call(static_cast<std::uint32_t>(-1));  // numbers wrap around
        case 5:
          return "";  // has not told any
        default:
          return std::nullopt;
      }
    }
  };
  FailedNode node;
  node.is_aborted = false;
  Statuses others;
  CHECK(Watchdog(node, 7, &others).ranks_behind() == std::vector{2, 4});
}

TEST_CASE("a rank that knows of another node's report has its cause, at once, and prints none", "[comm]") {
  FailedNode node;
  SilentRanks others;
  Watchdog watchdog(node, 2, &others);
  watchdog.yield_report("rank 0: no more data");
  const auto start = Clock::now();
  const FailureReport report = watchdog.report();
  CHECK(Clock::now() - start < Seconds(0.5 * tests::slowness));
  CHECK(report.cause == "rank 0: no more data");
  CHECK_FALSE(report.claim());
}

TEST_CASE("a rank that knows of no report prints its own", "[comm]") {
  FailedNode node;
  SilentRanks others;
  const FailureReport report = Watchdog(node, 2, &others).report();
  CHECK(report.cause == "rank 0 does not answer; rank 0 closed its connection");
  CHECK(report.claim());
}

TEST_CASE("the lowest rank that is there prints the report, not one that is gone behind its final status",
          "[comm]") {
  FailedNode node;
  node.final_status_of_0 = to_text({.host = "host", .pid = 1, .last = true, .where = "step 3"});
  node.has_lost_0 = GENERATE(false, true);
  const FailureReport report = Watchdog(node, 2, nullptr).report();
  CHECK(report.missing.empty());
  CHECK(report.claim() == node.has_lost_0);
}

namespace {

/// Rank 0 works for several time-outs of 1 s; `advances`: and tells that it gets on.
void work_at_rank_0(Communicator& group, bool advances) {
  const auto progress =
      std::make_shared<std::atomic<std::uint64_t>>(1);  // the group outlives a failed barrier
  group.watch({.position = [] { return "unpacking data, 35 %"; },
               .progress = [progress] { return progress->load(); },
               .overdue = {}});
  if (group.world().rank == 0) {
    for (const Deadline end = Deadline::in(Seconds(advances ? 3.2 : 10)); !end.passed() && !group.failed();) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the work
      if (advances) ++*progress;
    }
  }
}

void come_late(Communicator& group, bool advances) {
  work_at_rank_0(group, advances);
  group.barrier();
  group.watch({});
}

const std::string overdue = "rank 0 did not reach barrier 1 within 1 s";

}  // namespace

TEST_CASE("ranks of a node wait for one that gets on with long work, and not for one that does not",
          "[comm]") {
  const auto run = [](bool advances) {
    return run_thread_ranks(3, {.timeout = Seconds(1)},
                            [=](Communicator& group) { come_late(group, advances); });
  };
  CHECK(run(true) == std::vector<std::string>(3));
  CHECK_THAT(run(false)[1], contains(overdue));
}

TEST_CASE("ranks of several nodes wait for one that gets on with long work, and not for one that does not",
          "[comm]") {
  const auto run = [](bool advances) {
    return run_nodes({0, 1, 1}, Seconds(1), [=](Communicator& group) { come_late(group, advances); });
  };
  CHECK(run(true) == std::vector<std::string>(3));
  CHECK_THAT(run(false)[1], contains(overdue));
}

TEST_CASE("all pieces of a long text come from a rank that was waited for beyond the time-out", "[comm]") {
  const std::string text(std::size_t{3} << 20, 'x');
  const auto errors = run_nodes({0, 1}, Seconds(1), [&](Communicator& group) {
    work_at_rank_0(group, true);
    const auto texts = group.all_gather(group.world().rank == 0 ? text : "");
    group.watch({});
    if (texts != std::vector<std::string>{text, ""}) throw std::runtime_error("another text");
  });
  CHECK(errors == std::vector<std::string>(2));
}
