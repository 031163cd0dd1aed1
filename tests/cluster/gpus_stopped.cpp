#include <signal.h>

#include <cstdlib>

#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

/// On GPUs a stop is learned of while the step after it is under way, in its first micro-batch if it
/// has several: that step is saved, by all.
TEST_CASE("a run on GPUs that was asked to stop goes on to the bit") {
  setenv("SIMGPU_DEVICES", "2", 1);
  const Words options{"--model=mlp",
                      "--dataset=synthetic",
                      "--samples=640",
                      "--image-shape=1x8x8",
                      "--batch-size=16",
                      "--optimizer=adam",
                      "--seed=7",
                      "--threads=1",
                      "--device=cuda",
                      "--max-steps=400",
                      "--eval-every=0",
                      "--log-every=1",
                      "--progress=plain",
                      "--cuda-graph=off",
                      "--checkpoint-every=0"};
  const std::string micro_batches = GENERATE("1", "3");
  const Words in_parts = options + Words{"--accumulate-steps=" + micro_batches};
  const TemporaryFolder folder;
  const auto whole = train(2, in_parts, folder.path() / "whole");
  const std::filesystem::path run_dir = folder.path() / "stopped";
  Program run(trainer_words(2, in_parts + Words{"--run-dir", run_dir.string(), "--resume=auto"}));
  run.wait_for("step ");
  ::kill(run.pid(), SIGTERM);
  CHECK(run.wait_for_end() == 75);
  const auto stopped = nlohmann::json::parse(contents(run_dir / "summary.json"));
  CHECK(stopped["stopped"] == true);
  CHECK(stopped["steps"] < 400);
  const auto resumed = train(2, in_parts + Words{"--resume=auto"}, run_dir);
  CHECK(resumed["steps"] == 400);
  CHECK(resumed["weights_sha256"] == whole["weights_sha256"]);
}

}  // namespace
}  // namespace lockstep::tests
