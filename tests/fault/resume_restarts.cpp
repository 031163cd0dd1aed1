// `launch --max_restarts`: a run whose ranks are killed is started again by launch and goes on by itself.
#include <csignal>

#include "tests/fault/resume_runs.h"
#include "tests/support/unused_port.h"

namespace lockstep::tests {
namespace {

Words started_again(const std::filesystem::path& run_dir, const Words& launch_options) {
  Words words = resumable(run_dir, {"--max-steps=60", "--checkpoint-every=10"});
  words.insert(words.begin() + 1, launch_options.begin(), launch_options.end());
  return words;
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

TEST_CASE("of two nodes each starts its ranks again when one loses a rank") {
  const int killed = GENERATE(0, 3);  // on the node of the store, and on the other
  CAPTURE(killed);
  const TemporaryFolder folder;
  const int port = unused_port();
  const auto node = [&](int rank) {
    return started_again(folder / "run",
                         {"--nnodes=2", fmt::format("--node_rank={}", rank), "--master_addr=127.0.0.1",
                          fmt::format("--master_port={}", port), "--max_restarts=3"});
  };
  ::setenv("LOCKSTEP_TOKEN", "the secret of this test", 1);
  Program first(node(0));
  Program second(node(1));
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

}  // namespace
}  // namespace lockstep::tests
