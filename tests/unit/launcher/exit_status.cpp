#include "launcher/exit_status.h"

#include <sys/resource.h>

#include <csignal>

#include "launcher/output.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launcher {
namespace {

using tests::ScratchFolder;

ExitStatus left(int rank, int code) {
  return {.rank = rank, .code = code, .signal = 0, .when = {}};
}
ExitStatus killed(int rank, int signal) {
  return {.rank = rank, .code = 0, .signal = signal, .when = {}};
}
ExitStatus secondary(ExitStatus status) {
  status.after_failure = true;
  return status;
}
ExitStatus by_us(ExitStatus status) {
  status.killed_by_us = true;
  return status;
}

TEST_CASE("nothing decides a run that ended well") {
  CHECK_FALSE(root_cause({left(0, 0), left(1, 0)}));
}

TEST_CASE("the first failure decides, never a secondary one") {
  CHECK(root_cause({left(1, 3), secondary(killed(0, SIGTERM))})->rank == 1);
  CHECK(root_cause({left(0, 5), killed(1, SIGKILL)})->rank == 1);
  CHECK(root_cause({left(0, 5), left(2, 5), left(1, 2)})->rank == 1);
  CHECK(root_cause({left(0, 5), secondary(killed(1, SIGKILL))})->rank == 0);
  CHECK(root_cause({left(0, 0), left(1, 5)})->rank == 1);
  CHECK(root_cause({left(0, 3), killed(1, SIGSEGV)})->rank == 0);
}

ExitStatus telling(ExitStatus status, int code) {
  status.told_code = code;
  return status;
}

TEST_CASE("ranks that lost a peer yield to the one that ended for a reason of its own, however late") {
  const int own = GENERATE(2, 3, 4, 6);
  CHECK(root_cause({left(0, 5), left(2, 5), secondary(left(1, own))})->exit_code() == own);
  CHECK(root_cause({left(0, 5), telling(by_us(secondary(killed(1, SIGKILL))), own)})->rank == 1);
  CHECK(root_cause({left(0, 5), telling(by_us(secondary(killed(1, SIGKILL))), own)})->exit_code() == own);
  CHECK(root_cause({left(0, 5), killed(2, SIGKILL), secondary(left(1, own))})->rank == 2);
  CHECK(root_cause({left(0, 3), secondary(left(1, own))})->rank == 0);
  CHECK(root_cause({left(0, 5), telling(secondary(left(1, 5)), 5)})->rank == 0);
  CHECK(root_cause({left(0, 5), secondary(left(1, 1))})->rank == 0);
}

TEST_CASE("a stop after saving gives 75 unless a rank failed") {
  CHECK(root_cause({left(0, 75), left(1, 75)})->exit_code() == 75);
  CHECK(root_cause({left(0, 75), left(1, 3)})->exit_code() == 3);
  CHECK(root_cause({left(0, 75), by_us(killed(1, SIGKILL))})->exit_code() == 75);
  CHECK(root_cause({left(0, 0), by_us(killed(1, SIGKILL))})->exit_code() == 137);
}

TEST_CASE("a wrapper that ended as it was told to says less than what it had started") {
  const ExitStatus wrapper = killed(0, SIGTERM);
  CHECK(more_telling(wrapper, left(0, 75)).stopped());
  CHECK(more_telling(wrapper, left(0, 4)).code == 4);
  CHECK(more_telling(wrapper, by_us(killed(0, SIGKILL))).signal == SIGKILL);
  CHECK(more_telling(wrapper, left(0, 0)).signal == SIGTERM);
  CHECK(more_telling(left(0, 4), killed(0, SIGTERM)).code == 4);
  CHECK(more_telling(left(0, 75), left(0, 1)).stopped());
  CHECK(more_telling(left(0, 1), left(0, 75)).stopped());
  CHECK(more_telling(left(0, 128 + SIGTERM), left(0, 4)).code == 4);
  CHECK(more_telling(left(0, 0), killed(0, SIGTERM)).signal == SIGTERM);
}

TEST_CASE("a wrapper's trap hides what its error file tells: 75, and no failure") {
  for (const ExitStatus& wrapper :
       {left(0, 0), left(0, 128 + SIGTERM), left(0, 128 + SIGUSR1), killed(0, SIGTERM)}) {
    CHECK(more_telling(wrapper, 75).stopped());
    for (const int told : {0, 4, 5}) CHECK(more_telling(wrapper, told).exit_code() == wrapper.exit_code());
  }
  for (const ExitStatus& failure :
       {left(0, 1), left(0, 128 + SIGSEGV), killed(0, SIGKILL), killed(0, SIGSEGV)})
    CHECK(more_telling(failure, 75).exit_code() == failure.exit_code());
}

TEST_CASE("statuses in words and as a shell's code") {
  CHECK(describe(killed(0, SIGKILL)) == "was killed by SIGKILL");
  CHECK(describe(left(0, 3)) == "left with exit code 3");
  CHECK(killed(0, SIGSEGV).exit_code() == 139);
}

using std::chrono::milliseconds;

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

TEST_CASE(
    "SIGKILL is explained by a limit of processor time, where there is one, and else not by memory alone") {
  const ExitStatus cause = killed(0, SIGKILL);
  const auto report = [&] { return failure_report(cause, {cause}, {RankFacts{}}, "hostA", std::nullopt); };
  CHECK_THAT(report(), tests::contains("memory runs out: see dmesg; or somebody's kill -9"));
  tests::ChildProcess limited([&] {
    const rlimit seconds{.rlim_cur = 1234, .rlim_max = 1234};
    return setrlimit(RLIMIT_CPU, &seconds) == 0 && report().find("1234 s (ulimit -t)") != std::string::npos
               ? 0
               : 1;
  });
  CHECK(limited.wait() == 0);
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

TEST_CASE("a stop is no failure, and launch does not say what was saved") {
  const ExitStatus saved = {.rank = 0, .code = 75, .signal = 0, .when = {}};
  CHECK(failure_report(saved, {saved}, {RankFacts{}}, "hostA", SIGTERM) ==
        "launch: stopped by SIGTERM (exit code 75)\n");
  CHECK(failure_report(saved, {saved}, {RankFacts{}}, "hostA", std::nullopt) ==
        "launch: stopped (exit code 75)\n");
}

TEST_CASE("error files as torchrun's workers and ours write them") {
  const ScratchFolder folder;
  CHECK(error_message(folder.write("a", R"({"message": "plain"})")) == "plain");
  CHECK(error_message(folder.write("b", R"({"message": {"message": "nested", "extraInfo": {}}})")) ==
        "nested");
  CHECK(error_message(folder.write("c", R"({"message": 7})")).empty());
  CHECK(error_message(folder.write("d", "{half")).empty());
  CHECK(error_message(folder.path() / "missing").empty());
  CHECK(error_code(folder.write("e", R"({"message": {"message": "", "extraInfo": {"exit_code": 6}}})")) == 6);
  CHECK(error_code(folder.write("f", R"({"message": {"message": "", "extraInfo": {}}})")) == 0);
  CHECK(error_code(folder.write("g", R"({"message": "plain"})")) == 0);
}

}  // namespace
}  // namespace lockstep::launcher
