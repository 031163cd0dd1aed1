// A node, or a rank of one, that is started a second time: the second start ends with 2 and names the first,
// which goes on as if nothing had been.
#include <algorithm>
#include <csignal>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "comm/net/addresses.h"
#include "comm/net/tcp.h"
#include "tests/support/training.h"
#include "tests/unit/comm/nodes.h"

namespace lockstep::tests {
namespace {

constexpr Seconds most_time_to_refuse{10};
constexpr const char* token = "LOCKSTEP_TOKEN=the secret of this test";

const Words tiny_model{"--model=mlp", "--dataset=synthetic", "--samples=512",
                       "--threads=1", "--eval-every=0",      "--seed=7"};

Words training(const std::filesystem::path& run_dir, const std::string& length) {
  return Words{TRAINER_PROGRAM} + tiny_model +
         Words{length, "--timeout=60", "--progress=plain", "--run-dir=" + run_dir.string()};
}

const std::string for_ever = "--epochs=1000000";

/// A way to start one of the two places of a run, and then `command`, which tells its pid first.
using Start = std::function<Words(int place, int port, const Words& command)>;

Words telling_pid(const Words& command) {
  return Words{"sh", "-c", "echo pid$RANK=$$.; exec \"$0\" \"$@\""} + command;
}

/// Two ranks under `launch`.
Words launched_node(int node, int port, const Words& command) {
  return Words{"/usr/bin/env",
               token,
               fmt::format("LOCKSTEP_NODE=node {}", node),
               LAUNCH_PROGRAM,
               "--nnodes=2",
               "--nproc_per_node=2",
               fmt::format("--node_rank={}", node),
               "--master_addr=127.0.0.1",
               fmt::format("--master_port={}", port)} +
         telling_pid(command);
}

std::map<std::string, std::string> torchrun_variables(int rank, int local_size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", std::to_string(local_size == 2 ? rank : 0)},
          {"LOCAL_WORLD_SIZE", std::to_string(local_size)},
          {"GROUP_RANK", std::to_string(local_size == 2 ? 0 : rank)},
          {"GROUP_WORLD_SIZE", std::to_string(2 / local_size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"LOCKSTEP_NODE", local_size == 2 ? std::string() : fmt::format("node {}", rank)}};
}

Words rank_by_hand(const std::map<std::string, std::string>& variables, const Words& command) {
  Words words{"/usr/bin/env"};
  for (const auto& [name, value] : variables) words.push_back(name + "=" + value);
  return words + telling_pid(command);
}

Words rank_of_one_node(int rank, int port, const Words& command) {
  return rank_by_hand(torchrun_variables(rank, 2, port), command);
}

Words lone_rank_by_file(int rank, int port, const Words& command) {
  return rank_by_hand(torchrun_variables(rank, 1, port), command);
}

Words lone_rank_by_token(int rank, int port, const Words& command) {
  return lone_rank_by_file(rank, port, Words{"/usr/bin/env", token} + command);
}

bool names_a_process_of(const Program& first, const std::string& message) {
  const std::string& output = first.output();
  for (auto at = output.find("pid"); at != std::string::npos; at = output.find("pid", at + 1)) {
    const auto equals = output.find('=', at);
    const auto dot = output.find('.', at);
    if (equals == std::string::npos || dot == std::string::npos || equals > dot) continue;
    const std::string pid = output.substr(equals + 1, dot - equals - 1);
    if (message.find("(pid " + pid) != std::string::npos) return true;
  }
  return false;
}

void check_refused(const Program& second, int code, const Program& first) {
  INFO(second.output());
  CHECK(code == 2);
  CHECK(second.age() < most_time_to_refuse);
  CHECK_THAT(second.output(), contains("runs already") && contains("--rdzv-id"));
  CHECK(names_a_process_of(first, second.output()));
}

/// It makes further steps, and all end as they should when it is told to stop.
void check_goes_on(Program& rank0, Program& other) {
  const std::string& text = rank0.output();
  int steps = 0;
  for (auto at = text.find("step "); at != std::string::npos; at = text.find("step ", at + 1)) ++steps;
  rank0.wait_for("step ", steps + 2);
  ::kill(rank0.number_after("pid0"), SIGTERM);
  CHECK(rank0.wait_for_end() == 75);
  CHECK(other.wait_for_end() == 75);
}

const std::map<std::string, Start> all_starts{{"nodes under launch", launched_node},
                                              {"ranks of one node", rank_of_one_node},
                                              {"nodes of a rank, by token", lone_rank_by_token},
                                              {"nodes of a rank, by file", lone_rank_by_file}};

TEST_CASE("who is started again while the run trains is refused, and the run goes on", "[fault]") {
  const auto name = GENERATE(as<std::string>(), "nodes under launch", "ranks of one node",
                             "nodes of a rank, by token", "nodes of a rank, by file");
  const int place = GENERATE(0, 1);
  CAPTURE(name, place);
  const Start& start = all_starts.at(name);
  const TemporaryFolder folder;
  const int port = comm::testing::unused_port();
  const Words command = training(folder / "run", for_ever);
  Program first0(start(0, port, command));
  Program first1(start(1, port, command));
  first1.wait_for(".\n", name == "nodes under launch" ? 2 : 1);
  first0.wait_for("step ");
  Program second(start(place, port, command));
  const int code = second.wait_for_end();
  check_refused(second, code, place == 0 ? first0 : first1);
  check_goes_on(first0, first1);
}

TEST_CASE("of two starts at once one is refused, and the other makes the run", "[fault]") {
  const auto name = GENERATE(as<std::string>(), "nodes under launch", "ranks of one node",
                             "nodes of a rank, by token", "nodes of a rank, by file");
  const int place = GENERATE(0, 1);
  CAPTURE(name, place);
  const Start& start = all_starts.at(name);
  const TemporaryFolder folder;
  const int port = comm::testing::unused_port();
  const Words command = training(folder / "run", for_ever);
  Program one(start(place, port, command));
  Program two(start(place, port, command));
  one.wait_for(".\n");
  two.wait_for(".\n");
  Program other(start(1 - place, port, command));
  Program& refused = Program::first_to_end(one, two);
  Program& makes_it = &refused == &one ? two : one;
  const int code = refused.wait_for_end();
  makes_it.wait_for(".\n", name == "nodes under launch" ? 2 : 1);
  check_refused(refused, code, makes_it);
  if (place == 0) {
    check_goes_on(makes_it, other);
  } else {
    check_goes_on(other, makes_it);
  }
}

TEST_CASE("a run has the same bits whether a node of it was started again or not", "[fault]") {
  const int place = GENERATE(0, 1);
  CAPTURE(place);
  const std::string length = "--max-steps=200";
  const TemporaryFolder folder;
  const auto undisturbed = train(4, tiny_model + Words{length}, folder / "undisturbed");
  const int port = comm::testing::unused_port();
  const Words command = training(folder / "run", length);
  Program first0(launched_node(0, port, command));
  Program first1(launched_node(1, port, command));
  first1.wait_for(".\n", 2);
  first0.wait_for("step ");
  const pid_t held = first1.number_after("pid3");  // so that the run lasts until the second start has ended
  stop(held);
  Program second(launched_node(place, port, command));
  CHECK(second.wait_for_end() == 2);
  ::kill(held, SIGCONT);
  CHECK(first0.wait_for_end() == 0);
  CHECK(first1.wait_for_end() == 0);
  const auto summary = nlohmann::json::parse(contents(folder / "run" / "summary.json"));
  CHECK(summary["weights_sha256"] == undisturbed["weights_sha256"]);
}

TEST_CASE("a first start that is stopped is named too", "[fault]") {
  const TemporaryFolder folder;
  const int port = comm::testing::unused_port();
  const Words command = training(folder / "run", for_ever);
  Program first0(rank_of_one_node(0, port, command));
  Program first1(rank_of_one_node(1, port, command));
  first0.wait_for("step ");
  stop(first0.pid());
  Program second(rank_of_one_node(0, port, command));
  const int code = second.wait_for_end();
  check_refused(second, code, first0);
  CHECK_THAT(second.output(), contains("does not answer"));
  ::kill(first0.pid(), SIGCONT);
  check_goes_on(first0, first1);
}

Words restarted_by_torchrun(int rank, int port, int restart, const Words& command) {
  auto variables = torchrun_variables(rank, 2, port);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(restart);
  return rank_by_hand(variables, command);
}

Words restarted_by_slurm(int rank, int port, int restart, const Words& command) {
  return rank_by_hand({{"SLURM_PROCID", std::to_string(rank)},
                       {"SLURM_NTASKS", "2"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", std::to_string(rank)},
                       {"SLURM_JOB_ID", std::to_string(port)},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                       {"SLURM_RESTART_COUNT", std::to_string(restart)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"LOCKSTEP_TOKEN", "the secret of this test"},
                       {"LOCKSTEP_NODE", fmt::format("node {}", rank)}},
                      command);
}

TEST_CASE("a run that its launcher starts again does not meet what is left of it", "[fault]") {
  const auto start = GENERATE(restarted_by_torchrun, restarted_by_slurm);
  const TemporaryFolder folder;
  const int port = comm::testing::unused_port();
  const Words for_ever_in_a = training(folder / "a", for_ever);
  const Words short_in_b = training(folder / "b", "--max-steps=20");
  Program left0(start(0, port, 0, for_ever_in_a));
  Program left1(start(1, port, 0, for_ever_in_a));
  left0.wait_for("step ");
  Program again0(start(0, port, 1, short_in_b));
  Program again1(start(1, port, 1, short_in_b));
  CHECK(again0.wait_for_end() == 0);
  CHECK(again1.wait_for_end() == 0);
  INFO(again0.output());
  ::kill(left0.pid(), SIGTERM);
  CHECK(left0.wait_for_end() == 75);
  CHECK(left1.wait_for_end() == 75);
}

TEST_CASE("rank 0 finds its first start at whichever port that has", "[fault]") {
  const bool foreigner_stays = GENERATE(true, false);
  CAPTURE(foreigner_stays);
  const int port = comm::testing::unused_port();
  const auto variables = torchrun_variables(0, 1, port);
  const comm::World world = comm::find_world([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
  // It takes connections and says nothing.
  UniqueFd foreigner = comm::listen_tcp("127.0.0.1", comm::store_ports(world).front());
  REQUIRE(foreigner);
  const TemporaryFolder folder;
  const Words command = training(folder / "run", for_ever);
  Program first0(lone_rank_by_token(0, port, command));
  Program first1(lone_rank_by_token(1, port, command));
  first1.wait_for(".\n");
  first0.wait_for("step ");
  if (!foreigner_stays) foreigner.reset();
  Program second(lone_rank_by_token(0, port, command));
  const int code = second.wait_for_end();
  check_refused(second, code, first0);
  check_goes_on(first0, first1);
}

}  // namespace
}  // namespace lockstep::tests
