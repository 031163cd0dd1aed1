#include <random>

#include "tests/fault/resume_runs.h"

namespace lockstep::tests {
namespace {

TEST_CASE("300 steps, killed whole at six random moments, end with the weights of an undisturbed run") {
  constexpr int kills = 6;
  const TemporaryFolder folder;
  const auto run_dir = folder / "run";
  const Words words = resumable(run_dir, {"--max-steps=300", "--checkpoint-every=15", "--resume=auto"});
  const std::string whole = hash_of(resumable(folder / "whole", {"--max-steps=300"}), folder / "whole");

  const unsigned seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> steps_on(1, 60);
  std::uniform_int_distribution<int> looks(0, 100);
  for (int i = 0; i < kills; ++i) {
    const std::int64_t goal = std::min<std::int64_t>(logged_step(run_dir) + steps_on(random), 299);
    Program run(words);
    wait_until_seen([&] { return logged_step(run_dir) >= goal; });
    for (int look = looks(random); look > 0; --look) logged_step(run_dir);  // anywhere within a step
    kill_whole(run);
  }
  CHECK(hash_of(words, run_dir) == whole);
}

TEST_CASE("a run in micro-batches that is killed whole in mid-epoch goes on to the same weights") {
  const Words words{"--max-steps=60", "--checkpoint-every=10", "--accumulate-steps=2"};
  const TemporaryFolder folder;
  const std::string whole = hash_of(resumable(folder / "whole", words), folder / "whole");
  const auto run_dir = folder / "run";
  {
    Program run(resumable(run_dir, words));
    // An epoch has 16 steps of two micro-batches, and one of 4 and 2 samples.
    wait_until_seen([&] { return logged_step(run_dir) >= 23; });
    kill_whole(run);
  }
  CHECK(hash_of(resumable(run_dir, words + Words{"--resume=auto"}), run_dir) == whole);
}

}  // namespace
}  // namespace lockstep::tests
