// A rank that is killed while the ranks exchange the statistics of --sync-bn, or rows of an embedding's
// gradient: the others end at once, and what they report names it and the exchange.
#include <fmt/format.h>

#include <csignal>

#include "tests/support/training.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

/// The one at the gate, for whom the other two wait in the exchange.
constexpr int late_rank = 1;

/// A closed connection is seen at once, and reports take a second; --timeout is ten minutes here.
constexpr Seconds time_to_end{5};

/// Each rank on its own: the exchange goes over TCP.
const std::string on_three_nodes = "export LOCKSTEP_NODE=$RANK; ";

/// A gate, the model that has it, and what the others exchange behind it.
struct GatedExchange {
  std::string gate;
  Words model;
  std::string exchange;
  std::string place = "step 3, ";
  /// Between nodes updates, and the rows for them, are left to the next step.
  std::string place_between_nodes = "step 3, ";
};
const GatedExchange statistics{"forward", {"--model=gated", "--sync-bn"}, "(statistics of bn)"};
const GatedExchange gradient_sums{"backward", {"--model=gated", "--sync-bn"}, "(gradient sums of bn)"};
const GatedExchange rows{"backward",
                         {"--model=gated_rows"},
                         "(rows of wte.weight)",
                         "step 3, ",
                         "step 4, wait for rows of wte.weight, of the step before"};

Words gated(const GatedExchange& exchange, const std::filesystem::path& run_dir, const std::string& nodes) {
  const std::string tells_pid = nodes + "echo pid$RANK=$$.; exec \"$0\" \"$@\"";
  return Words{"/bin/sh",
               "-c",
               tells_pid,
               TRAINER_PROGRAM,
               "--plugin=" GATED_PLUGIN,
               "--dataset=synthetic",
               "--samples=256",
               "--batch-size=8",
               "--epochs=1000000",
               "--eval-every=0",
               "--threads=1",
               "--progress=none",
               "--run-dir=" + run_dir.string()} +
         exchange.model;
}

Words with_gate(const GatedExchange& exchange, const Words& command) {
  return Words{"/usr/bin/env", "GATE=" + exchange.gate, "GATE_RANK=" + std::to_string(late_rank)} + command;
}

/// Its cause is that of all reports.
void check_report(const std::filesystem::path& run_dir, const GatedExchange& exchange, int victim,
                  pid_t killed, bool between_nodes) {
  const bool knows_own_node_only = victim == 0 && between_nodes;
  const std::string place = between_nodes ? exchange.place_between_nodes : exchange.place;
  const auto report = nlohmann::json::parse(contents(run_dir / "failure.json"));
  INFO(report.dump(2));
  CHECK_THAT(report["cause"].get<std::string>(), contains(fmt::format("rank {} (pid {}", victim, killed)));
  for (const auto& rank : report["ranks"]) {
    if (rank["rank"] == late_rank || rank["rank"] == victim) continue;
    // With the store's host the statuses of other nodes are lost.
    if (knows_own_node_only && rank["answered"] == false) continue;
    CHECK(rank["answered"] == true);
    CHECK_THAT(rank["where"].get<std::string>(), contains(place) && contains(exchange.exchange));
  }
}

TEST_CASE("a rank killed in the exchange of statistics or rows ends the run: all name it, 137") {
  const GatedExchange exchange = GENERATE(statistics, gradient_sums, rows);
  const std::string nodes = GENERATE(std::string(), on_three_nodes);
  const int victim = GENERATE(0, 1, 2);
  CAPTURE(exchange.exchange, nodes, victim);
  const TemporaryFolder folder;
  Program run(with_gate(
      exchange, Words{LAUNCH_PROGRAM, "--nproc_per_node=3"} + gated(exchange, folder / "run", nodes)));
  run.wait_for("at the gate\n");
  run.wait_for("past the gate\n", 2);
  REQUIRE(
      wait_until_all_asleep({run.number_after("pid0"), run.number_after("pid1"), run.number_after("pid2")}));
  const pid_t killed = run.number_after("pid" + std::to_string(victim));
  const auto start = Clock::now();
  ::kill(killed, SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(Clock::now() - start < time_to_end);
  INFO(run.output());
  CHECK_THAT(run.output(), contains(fmt::format("rank {} (pid {}) was killed by SIGKILL", victim, killed)));
  check_report(folder / "run", exchange, victim, killed, !nodes.empty());
  for (const char* rank : {"pid0", "pid1", "pid2"}) CHECK(wait_until_gone(run.number_after(rank)));
}

/// Of three that nobody supervises.
Words by_hand(const GatedExchange& exchange, int rank, int port, const std::filesystem::path& run_dir) {
  return Words{"/usr/bin/env",
               fmt::format("RANK={}", rank),
               fmt::format("LOCAL_RANK={}", rank),
               "WORLD_SIZE=3",
               "LOCAL_WORLD_SIZE=3",
               "MASTER_ADDR=127.0.0.1",
               fmt::format("MASTER_PORT={}", port),
               "TORCHELASTIC_RUN_ID=" + run_dir.string()} +
         gated(exchange, run_dir, "");
}

TEST_CASE("without a launcher each rank that waits in the exchange names the killed one, exit 5") {
  const GatedExchange exchange = GENERATE(statistics, gradient_sums, rows);
  CAPTURE(exchange.exchange);
  const TemporaryFolder folder;
  const int port = unused_port();
  Program first(with_gate(exchange, by_hand(exchange, 0, port, folder / "run")));
  Program late(with_gate(exchange, by_hand(exchange, late_rank, port, folder / "run")));
  Program last(with_gate(exchange, by_hand(exchange, 2, port, folder / "run")));
  late.wait_for("at the gate\n");
  for (Program* rank : {&first, &last}) rank->wait_for("past the gate\n");
  REQUIRE(wait_until_all_asleep({first.pid(), late.pid(), last.pid()}));
  const auto start = Clock::now();
  ::kill(late.pid(), SIGKILL);
  CHECK(first.wait_for_end() == 5);
  CHECK(last.wait_for_end() == 5);
  CHECK(Clock::now() - start < time_to_end);
  const std::string name = fmt::format("rank {} (pid {}", late_rank, late.number_after("pid1"));
  CHECK_THAT(first.output(), contains(name));
  CHECK_THAT(last.output(), contains(name));
  check_report(folder / "run", exchange, late_rank, late.pid(), false);
}

}  // namespace
}  // namespace lockstep::tests
