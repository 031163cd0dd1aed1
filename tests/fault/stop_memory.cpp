// Runs whose memory is limited, and which are stopped: what trains can be saved.
#include "tests/fault/stop_runs.h"

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// 26 MB of parameters: a copy of them and of Adam's state takes 78.
const Words wide{"--model-args=hidden=8192", "--image-shape=1x28x28", "--batch-size=4", "--num-workers=0"};

Words with_address_space(std::int64_t mib, const Words& words) {
  // A thread's own arena takes 64 MiB of address space, in some runs and not in others.
  return Words{"/bin/sh", "-c", "export MALLOC_ARENA_MAX=1; ulimit -v $0 && exec \"$@\"",
               std::to_string(mib << 10)} +
         words;
}

/// In which two steps and the weights' file succeed, to 8 MiB.
std::int64_t least_address_space() {
  std::int64_t too_little = 64;
  std::int64_t enough = 2048;
  while (enough - too_little > 8) {
    const std::int64_t middle = (too_little + enough) / 2;
    const TemporaryFolder folder;
    Program run(with_address_space(middle, endless_training(folder / "run", wide + Words{"--max-steps=2"})));
    (run.wait_for_end() == 0 ? enough : too_little) = middle;
  }
  return enough;
}

TEST_CASE("a run that has the memory to train is saved when it is stopped") {
  const TemporaryFolder folder;
  const fs::path run_dir = folder / "run";
  // A tensor on its way to the file takes 51 of these at most, half in the plan's layout.
  const std::int64_t least = least_address_space();
  const Words words = endless_training(run_dir, wide);
  Program run(with_address_space(least + 60, words));
  wait_for_steps(run_dir);
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
  INFO(run.output());
  CHECK(has_checkpoint(run_dir));

  Program copying(with_address_space(least, words + Words{"--checkpoint-every=1000000", "--resume=none",
                                                          "--run-dir=" + (folder / "other").string()}));
  CHECK(copying.wait_for_end() == 4);
  CHECK_THAT(copying.output(), contains("--checkpoint-every: no memory for a copy of weights"));
}

}  // namespace
}  // namespace lockstep::tests
