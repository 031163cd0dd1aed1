// A rank that is killed while the ranks exchange the statistics of --sync-bn: the others end at once, and
// what they report names it and the exchange.
#include <fmt/format.h>

#include <csignal>

#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

/// The one at the gate, for whom the other two wait in the exchange.
constexpr int late_rank = 1;

/// A closed connection is seen at once, and reports take a second; --timeout is ten minutes here.
constexpr Seconds time_to_end{5};

/// Each rank on its own: the exchange goes over TCP.
const std::string on_three_nodes = "export LOCKSTEP_NODE=$RANK; ";

Words gated(const std::filesystem::path& run_dir, const std::string& nodes) {
  const std::string tells_pid = nodes + "echo pid$RANK=$$.; exec \"$0\" \"$@\"";
  return Words{"/bin/sh",
               "-c",
               tells_pid,
               TRAINER_PROGRAM,
               "--plugin=" GATED_PLUGIN,
               "--model=gated",
               "--sync-bn",
               "--dataset=synthetic",
               "--samples=256",
               "--batch-size=8",
               "--epochs=1000000",
               "--eval-every=0",
               "--threads=1",
               "--progress=none",
               "--run-dir=" + run_dir.string()};
}

Words with_gate(const std::string& gate, const Words& command) {
  return Words{"/usr/bin/env", "GATE=" + gate, "GATE_RANK=" + std::to_string(late_rank)} + command;
}

/// Its cause is that of all reports.
void check_report(const std::filesystem::path& run_dir, const std::string& gate, int victim, pid_t killed,
                  bool knows_own_node_only) {
  const auto report = nlohmann::json::parse(contents(run_dir / "failure.json"));
  INFO(report.dump(2));
  CHECK_THAT(report["cause"].get<std::string>(), contains(fmt::format("rank {} (pid {}", victim, killed)));
  const std::string exchange = gate == "forward" ? "(statistics of bn)" : "(gradient sums of bn)";
  for (const auto& rank : report["ranks"]) {
    if (rank["rank"] == late_rank || rank["rank"] == victim) continue;
    // With the store's host the statuses of other nodes are lost.
    if (knows_own_node_only && rank["answered"] == false) continue;
    CHECK(rank["answered"] == true);
    CHECK_THAT(rank["where"].get<std::string>(), contains("step 3, ") && contains(exchange));
  }
}

TEST_CASE("--sync-bn: a rank killed in the exchange of statistics ends the run: all name it, 137") {
  const std::string gate = GENERATE("forward", "backward");
  const std::string nodes = GENERATE(std::string(), on_three_nodes);
  const int victim = GENERATE(0, 1, 2);
  CAPTURE(gate, nodes, victim);
  const TemporaryFolder folder;
  Program run(with_gate(gate, Words{LAUNCH_PROGRAM, "--nproc_per_node=3"} + gated(folder / "run", nodes)));
  run.wait_for("at the gate\n");
  run.wait_for("past the gate\n", 2);
  for (const char* rank : {"pid0", "pid2"}) REQUIRE(wait_until_asleep(run.number_after(rank)));
  const pid_t killed = run.number_after("pid" + std::to_string(victim));
  const auto start = Clock::now();
  ::kill(killed, SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(Clock::now() - start < time_to_end);
  INFO(run.output());
  CHECK_THAT(run.output(), contains(fmt::format("rank {} (pid {}) was killed by SIGKILL", victim, killed)));
  check_report(folder / "run", gate, victim, killed, victim == 0 && !nodes.empty());
  for (const char* rank : {"pid0", "pid1", "pid2"}) CHECK(wait_until_gone(run.number_after(rank)));
}

/// Of three that nobody supervises.
Words by_hand(int rank, const std::filesystem::path& run_dir) {
  return Words{"/usr/bin/env",
               fmt::format("RANK={}", rank),
               fmt::format("LOCAL_RANK={}", rank),
               "WORLD_SIZE=3",
               "LOCAL_WORLD_SIZE=3",
               "MASTER_ADDR=127.0.0.1",
               "MASTER_PORT=29500",
               "TORCHELASTIC_RUN_ID=" + run_dir.string()} +
         gated(run_dir, "");
}

TEST_CASE(
    "--sync-bn: without a launcher, too, each rank that waits in the exchange names the killed one: 5") {
  const std::string gate = GENERATE("forward", "backward");
  const TemporaryFolder folder;
  Program first(with_gate(gate, by_hand(0, folder / "run")));
  Program late(with_gate(gate, by_hand(late_rank, folder / "run")));
  Program last(with_gate(gate, by_hand(2, folder / "run")));
  late.wait_for("at the gate\n");
  for (Program* rank : {&first, &last}) {
    rank->wait_for("past the gate\n");
    REQUIRE(wait_until_asleep(rank->pid()));
  }
  const auto start = Clock::now();
  ::kill(late.pid(), SIGKILL);
  CHECK(first.wait_for_end() == 5);
  CHECK(last.wait_for_end() == 5);
  CHECK(Clock::now() - start < time_to_end);
  const std::string name = fmt::format("rank {} (pid {}", late_rank, late.number_after("pid1"));
  CHECK_THAT(first.output(), contains(name));
  CHECK_THAT(last.output(), contains(name));
  check_report(folder / "run", gate, late_rank, late.pid(), false);
}

}  // namespace
}  // namespace lockstep::tests
