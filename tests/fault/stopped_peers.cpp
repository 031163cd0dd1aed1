// A rank that is stopped or killed before a collective, in it or after it, for every collective and every way
// to exchange: the others end in time, and what they say names it.
#include <fmt/format.h>

#include <csignal>

#include "tests/cluster/mpirun.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

constexpr const char* collectives[]{
    "all_reduce", "large_all_reduce", "reduce_scatter", "all_gather", "all_gather_filled",
    "sum",        "broadcast",        "texts",          "barrier"};
constexpr const char* moments[]{"before", "in", "after"};
constexpr const char* ways[]{"shm", "tcp", "mpi"};

/// --timeout, and 3 s for who is lost to be told and launch to end.
constexpr Seconds most_after_strike((3 + 3) * slowness);
/// By MPI with what mpirun takes to end a stopped rank.
constexpr Seconds most_by_mpi((3 + 3 + 5) * slowness);

Words ranks_of(const std::string& way, const std::string& collective, const std::string& moment) {
  const Words rank{RANK_PROGRAM, collective, moment};
  if (way == "mpi") return Words{"/usr/bin/env", "COLLECTIVE_BACKEND=mpi"} + mpirun_words(3, rank);
  const std::string nodes = way == "tcp" ? "export LOCKSTEP_NODE=$RANK; " : "";
  return Words{LAUNCH_PROGRAM, "--nproc_per_node=3",        "--shutdown-timeout=5", "/bin/sh",
               "-c",           nodes + "exec \"$0\" \"$@\""} +
         rank;
}

struct Strike {
  std::string way;
  std::string collective;
  std::string moment;
  int signal;

  bool kills() const { return signal == SIGKILL; }
  /// Whose work is done waits for nobody, but in MPI_Finalize.
  bool harms_nobody() const { return moment == "after" && way != "mpi"; }
  /// What a rank brings to a collective may be with all, or on its way, when it is stopped.
  bool may_harm_nobody() const { return moment == "in"; }
};

void check_by_mpi(const Strike& strike, const std::vector<pid_t>& pids, Program& run) {
  if (!strike.kills()) {
    for (const int other : {0, 2}) REQUIRE(wait_until_gone(pids[static_cast<std::size_t>(other)]));
    // mpirun ends a stopped rank behind a failure, and waits for it when the others are done.
    if (!wait_until_gone(pids[1], Seconds(5))) ::kill(pids[1], SIGKILL);
  }
  const int code = run.wait_for_end();
  INFO(run.output());
  const bool harmed = run.output().find("ended: passed") == std::string::npos;
  CHECK((harmed || strike.may_harm_nobody()));
  // mpirun tells of the killed, and a rank names the call in which it waited.
  const bool names_killed = strike.kills() || !harmed;
  CHECK(code == (names_killed ? 128 + SIGKILL : 5));
  CHECK_THAT(run.output(), contains(names_killed ? "signal 9" : "was not done within"));
}

void check_by_host(const Strike& strike, pid_t victim, Program& run) {
  run.wait_for("ended: ", 2);
  const bool harmed = run.output().find("ended: passed") == std::string::npos;
  CHECK((harmed != strike.harms_nobody() || strike.may_harm_nobody()));
  if (!harmed) ::kill(victim, SIGKILL);  // launch waits for a stopped rank as long as it is stopped
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == (strike.kills() || !harmed ? 128 + SIGKILL : 5));
  CHECK_THAT(run.output(), contains("rank 1"));
  if (harmed) CHECK_THAT(run.output(), !contains("ended: rank 0") && !contains("ended: rank 2"));
}

void check(const Strike& strike) {
  const auto& [way, collective, moment, signal] = strike;
  CAPTURE(way, collective, moment, signal);
  Program run(ranks_of(way, collective, moment));
  run.wait_for("start of rank", 3);
  if (moment == "after") run.wait_for("end of rank", 3);
  const pid_t rank_0 = run.number_after("pid0");
  const pid_t victim = run.number_after("pid1");
  const pid_t late = run.number_after("pid2");
  // MPI is polled: its ranks never sleep.
  if (way != "mpi" && moment == "before") REQUIRE(wait_until_all_asleep({rank_0, late}));
  if (way != "mpi" && moment == "in") REQUIRE(wait_until_all_asleep({rank_0, victim}));
  const auto start = Clock::now();
  ::kill(victim, signal);
  if (moment == "in") ::kill(late, SIGUSR1);
  way == "mpi" ? check_by_mpi(strike, {rank_0, victim, late}, run) : check_by_host(strike, victim, run);
  INFO(run.output());
  CHECK(Clock::now() - start < (way == "mpi" ? most_by_mpi : most_after_strike));
}

TEST_CASE("a rank stopped or killed at a collective: each collective once, moments and ways in turn") {
  int turn = 0;
  for (const std::string collective : collectives) {
    check({ways[turn / 4 % 2], collective, moments[turn % 3], turn % 5 == 0 ? SIGSTOP : SIGKILL});
    ++turn;
  }
}

TEST_CASE("a rank stopped or killed: every collective, moment and way", "[.matrix]") {
  for (const std::string way : ways) {
    if (way == "mpi" && std::string(MPIRUN).empty()) return skip("this build has no MPI");
    for (const std::string collective : collectives) {
      for (const std::string moment : moments) {
        for (const int signal : {SIGKILL, SIGSTOP}) check({way, collective, moment, signal});
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::tests
