// `launch --max_restarts`: a run whose ranks are killed is started again by launch and goes on by itself.
#include <csignal>

#include "tests/fault/resume_runs.h"
#include "tests/support/text.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

Words started_again(const std::filesystem::path& run_dir, const Words& launch_options) {
  Words words = resumable(run_dir, {"--max-steps=60", "--checkpoint-every=10"});
  words.insert(words.begin() + 1, launch_options.begin(), launch_options.end());
  return words;
}

/// One of two nodes whose ranks are started again three times at most.
Words node_started_again(const std::filesystem::path& run_dir, int node, int port) {
  return started_again(run_dir, {"--nnodes=2", fmt::format("--node_rank={}", node), "--master_addr=127.0.0.1",
                                 fmt::format("--master_port={}", port), "--max_restarts=3"});
}

/// Kills a rank when the run has saved a step from `step` on; its output when launch has seen it to its end.
std::string output_after_kill(const Words& words, const std::filesystem::path& run_dir, std::int64_t step) {
  Program run(words);
  run.wait_for("pid1=");
  wait_until_seen([&] {
    const auto steps = directory_of(run_dir).steps();
    return !steps.empty() && steps.front() >= step;
  });
  ::kill(run.number_after("pid1"), SIGKILL);
  const int code = run.wait_for_end(whole_run);
  INFO(run.output());
  CHECK(code == 0);
  CHECK_THAT(run.output(), contains("launch: starts all ranks of this node again, 1 of 1 times"));
  return run.output();
}

void kill_rank_after_step(Program& run, const std::filesystem::path& run_dir, int rank, std::int64_t step) {
  run.wait_for(fmt::format("pid{}=", rank));
  wait_until_seen([&] { return logged_step(run_dir) >= step; });
  ::kill(run.number_after(fmt::format("pid{}", rank)), SIGKILL);
}

TEST_CASE("a run with a killed rank is started again, and goes on to the same weights") {
  const TemporaryFolder folder;
  Program run(started_again(folder / "run", {"--max_restarts=1"}));
  kill_rank_after_step(run, folder / "run", 1, 15);
  const int code = run.wait_for_end(whole_run);
  INFO(run.output());
  CHECK(code == 0);
  CHECK_THAT(run.output(), contains("rank 1 (pid ") && contains("was killed by SIGKILL") &&
                               contains("launch: starts all ranks of this node again, 1 of 1 times"));
  CHECK(hash_in(folder / "run") == hash_of(started_again(folder / "whole", {}), folder / "whole"));
  CHECK_FALSE(std::filesystem::exists(folder / "run/failure.json"));
}

TEST_CASE("a run that is repeated from its config.ini goes on when launch starts it again") {
  const bool has_none_typed = GENERATE(false, true);
  const TemporaryFolder folder;
  const std::string wanted = hash_of(started_again(folder / "old", {}), folder / "old");
  const std::filesystem::path config = folder / "old/config.ini";
  CHECK(contents(config).find("resume = ") == std::string::npos);
  if (has_none_typed) std::ofstream(config, std::ios::app) << "resume = none\n";
  Words words = telling_pids({"--config=" + config.string(), "--run-dir=" + (folder / "new").string()});
  words.insert(words.begin() + 1, "--max_restarts=1");
  output_after_kill(words, folder / "new", 10);
  CHECK(hash_in(folder / "new") == wanted);
  CHECK(contents(folder / "new/config.ini").find("resume = auto") == std::string::npos);
}

TEST_CASE("a run that began with a named checkpoint goes on with its own when launch starts it again") {
  const std::string name = GENERATE("run", "other");  // where the checkpoint is, and where there is none yet
  const TemporaryFolder folder;
  const std::string wanted = hash_of(started_again(folder / "whole", {}), folder / "whole");
  hash_of(resumable(folder / "run", {"--max-steps=10", "--checkpoint-every=10"}), folder / "run");
  const Words words =
      started_again(folder / name, {"--max_restarts=1"}) +
      Words{"--resume=" + (folder / "run/checkpoints/step-00000010").string(), "--progress=plain"};
  CHECK(count_of(output_after_kill(words, folder / name, 20), "goes on after step 10 ") == 1);
  CHECK(hash_in(folder / name) == wanted);
}

TEST_CASE("a launcher's restart leaves a run alone that was there before its first start") {
  const std::string every = GENERATE("--checkpoint-every=0", "--checkpoint-every=5");
  const bool has_names = GENERATE(true, false);  // torchrun calls all others "none"
  const TemporaryFolder folder;
  const std::filesystem::path run_dir = folder / "run";
  const auto code_of = [&](const std::string& job, int restart, const std::string& steps,
                           const std::string& said) {
    const std::string logs = (folder / fmt::format("logs/{}/attempt_{}", job, restart)).string();
    Program run(Words{"/usr/bin/env", "TORCHELASTIC_RUN_ID=" + (has_names ? job : "none"),
                      "TORCHELASTIC_ERROR_FILE=" + logs + "/0/error.json",
                      fmt::format("TORCHELASTIC_RESTART_COUNT={}", restart), TRAINER_PROGRAM, "--model=mlp",
                      "--dataset=synthetic", "--samples=640", "--threads=1", "--eval-every=0",
                      "--progress=plain", "--run-dir=" + run_dir.string(), steps, every});
    const int code = run.wait_for_end();
    CHECK_THAT(run.output(), contains(said));
    return code;
  };
  REQUIRE(code_of("old", 0, "--max-steps=10", "step") == 0);
  const std::string summary = contents(run_dir / "summary.json");
  const bool has_checkpoint = every != "--checkpoint-every=0";
  const std::string finished = "holds a finished run and no checkpoint to go on from: name another --run-dir";
  // The second: what was refused has not made the folder its own.
  for (const int restart : {1, 2}) {
    CHECK(code_of("new", restart, "--max-steps=20",
                  has_checkpoint ? "already holds a run: go on with --resume auto" : finished) == 2);
  }
  CHECK(contents(run_dir / "summary.json") == summary);
  if (has_checkpoint) {
    CHECK(code_of("old", 1, "--max-steps=20", "goes on after step 10") == 0);
  } else {
    CHECK(code_of("old", 1, "--max-steps=20", finished) == 2);
    CHECK(contents(run_dir / "summary.json") == summary);
  }
}

TEST_CASE("of two nodes each starts its ranks again when one loses a rank") {
  const int killed = GENERATE(0, 3);  // on the node of the store, and on the other
  CAPTURE(killed);
  const TemporaryFolder folder;
  const int port = unused_port();
  ::setenv("LOCKSTEP_TOKEN", "the secret of this test", 1);
  Program first(node_started_again(folder / "run", 0, port));
  Program second(node_started_again(folder / "run", 1, port));
  kill_rank_after_step(killed == 0 ? first : second, folder / "run", killed, 15);
  const int first_code = first.wait_for_end(whole_run);
  const int second_code = second.wait_for_end(whole_run);
  ::unsetenv("LOCKSTEP_TOKEN");
  INFO(first.output() << second.output());
  CHECK(first_code == 0);
  CHECK(second_code == 0);
  CHECK_THAT(first.output(), contains("starts all ranks of this node again, 1 of 3"));
  CHECK_THAT(second.output(), contains("starts all ranks of this node again, 1 of 3"));
}

TEST_CASE("a node that loses all its ranks at once waits for the other node's next start, in one start") {
  const int ranks = GENERATE(1, 2);  // of each node
  CAPTURE(ranks);
  const TemporaryFolder folder;
  const int port = unused_port();
  const auto node = [&](int number) {
    Words words = node_started_again(folder / "run", number, port);
    std::ranges::replace(words, std::string("--nproc_per_node=2"), fmt::format("--nproc_per_node={}", ranks));
    return Words{"/usr/bin/env", "LOCKSTEP_TOKEN=the secret of this test",
                 fmt::format("LOCKSTEP_NODE=node {}", number)} +
           words;
  };
  Program first(node(0));
  Program second(node(1));
  const auto pid_of = [](int rank) { return fmt::format("pid{}", rank); };
  for (int rank = ranks; rank < 2 * ranks; ++rank) second.wait_for(pid_of(rank) + "=");
  wait_until_seen([&] { return logged_step(folder / "run") >= 15; });
  for (int rank = ranks; rank < 2 * ranks; ++rank) ::kill(second.number_after(pid_of(rank)), SIGKILL);
  const int first_code = first.wait_for_end(whole_run);
  const int second_code = second.wait_for_end(whole_run);
  INFO(first.output() << second.output());
  CHECK(first_code == 0);
  CHECK(second_code == 0);
  CHECK(count_of(first.output(), "starts all ranks of this node again") == 1);
  CHECK(count_of(second.output(), "starts all ranks of this node again") == 1);
}

}  // namespace
}  // namespace lockstep::tests
