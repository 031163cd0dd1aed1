#include "launcher/report.h"

#include <csignal>

#include "launcher/logs.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;

const Cores two = {.cores = {{0}, {1}}, .quota = 0};

TEST_CASE("the line at the start tells ranks, cores, threads and binding") {
  CHECK(start_line(two, {{0}, {1}}, 2, "") == "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1");
  CHECK(start_line(two, {}, 1, "") == "1 rank on 2 cores: 2 threads each, not bound");
  CHECK(start_line(two, {}, 16, "") ==
        "16 ranks on 2 cores: 1 thread each, not bound (more ranks than cores)");
  CHECK(start_line(two, {}, 2, "4") == "2 ranks on 2 cores: OMP_NUM_THREADS=4 each, not bound");
}

TEST_CASE("the report names the first cause, its message, and the others") {
  const Clock::time_point start;
  const ExitStatus cause = {.rank = 1, .code = 0, .signal = SIGSEGV, .when = start + milliseconds(3210)};
  const ExitStatus other = {
      .rank = 0, .code = 5, .signal = 0, .when = start + milliseconds(3300), .after_failure = true};
  const std::vector<RankFacts> ranks = {
      {.rank = 4, .pid = 122, .started = start, .message = ""},
      {.rank = 5, .pid = 123, .started = start, .message = "index out of range"}};
  CHECK(failure_report(cause, {cause, other}, ranks, "hostA", std::nullopt) ==
        "launch: rank 5 (pid 123) was killed by SIGSEGV after 3.2 s [local rank 1, host hostA]\n"
        "launch:   it said: index out of range\n"
        "launch:   then rank 4 left with exit code 5\n");
}

TEST_CASE("ranks that ended alike share a line") {
  std::vector<ExitStatus> statuses;
  std::vector<RankFacts> ranks;
  for (const int signal : {SIGSEGV, SIGTERM, SIGTERM, SIGKILL}) {
    const int rank = static_cast<int>(ranks.size());
    statuses.push_back({.rank = rank, .code = 0, .signal = signal, .when = {}});
    ranks.push_back({.rank = rank, .pid = 100 + rank, .started = {}, .message = ""});
  }
  CHECK_THAT(failure_report(statuses.front(), statuses, ranks, "hostA", std::nullopt),
             Catch::Matchers::EndsWith(
                 "launch:   then rank 3 was killed by SIGKILL; ranks 1, 2 were killed by SIGTERM\n"));
}

TEST_CASE("a stop after saving is no failure") {
  const ExitStatus saved = {.rank = 0, .code = 75, .signal = 0, .when = {}};
  CHECK(failure_report(saved, {saved}, {RankFacts{}}, "hostA", SIGTERM) ==
        "launch: stopped by SIGTERM after saving (exit code 75): start it again to go on\n");
}

TEST_CASE("error files as torchrun's workers and ours write them") {
  const ScratchFolder folder;
  CHECK(error_message(folder.write("a", R"({"message": "plain"})")) == "plain");
  CHECK(error_message(folder.write("b", R"({"message": {"message": "nested", "extraInfo": {}}})")) ==
        "nested");
  CHECK(error_message(folder.write("c", R"({"message": 7})")).empty());
  CHECK(error_message(folder.write("d", "{half")).empty());
  CHECK(error_message(folder.path() / "missing").empty());
}

}  // namespace
}  // namespace lockstep::launcher
