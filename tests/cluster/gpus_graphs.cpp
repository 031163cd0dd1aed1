// Steps that cannot be replayed as CUDA graphs: `auto` walks on, `on` ends with 4.
#include "tests/cluster/gpus.h"
#include "tests/cluster/saved_state.h"

namespace lockstep::tests {
namespace {

const Words short_steps{"--model=linear",   "--dataset=synthetic", "--samples=500",  "--seed=7",
                        "--eval-every=0",   "--threads=1",         "--batch-size=8", "--device=cuda",
                        "--progress=plain", "--max-steps=40"};

/// A run of five steps for which `auto` has decided, as it does by their time.
void leave_run_that_replays(int ranks, const std::filesystem::path& run_dir) {
  train(ranks, short_steps + Words{"--max-steps=5", "--checkpoint-every=5"}, run_dir);
  auto state = state_in(run_dir);
  state["replayed"] = true;
  replace_state(run_dir, state);
}

/// Under `launch`, with the first call of `function` failing on the last rank alone.
Words words_of_faulty_run(int ranks, const std::string& function) {
  const std::string last = std::to_string(ranks - 1);
  return {LAUNCH_PROGRAM,
          "--nproc_per_node=" + std::to_string(ranks),
          "sh",
          "-c",
          "[ $RANK != " + last + " ] || export SIMGPU_FAIL_CALL=" + function + "@1; exec \"$@\"",
          "sh",
          TRAINER_PROGRAM};
}

}  // namespace

TEST_CASE("--cuda-graph auto walks on, on all ranks, where one cannot make a graph, and goes on so") {
  const int ranks = GENERATE(1, 2);
  const std::string function =
      GENERATE("cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphUpload");
  CAPTURE(ranks, function);
  give_gpus(ranks);
  const TemporaryFolder folder;
  const auto walked = train(ranks, short_steps + Words{"--cuda-graph=off"}, folder / "walked");
  leave_run_that_replays(ranks, folder / "run");
  Program run(words_of_faulty_run(ranks, function) + short_steps +
              Words{"--checkpoint-every=30", "--resume=auto", "--run-dir", (folder / "run").string()});
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  REQUIRE_THAT(run.output(), contains("fails on demand"));
  CHECK_THAT(run.output(), contains("a step cannot be replayed as a CUDA graph, and is walked: cuda: "));
  const auto summary = nlohmann::json::parse(contents(folder / "run" / "summary.json"));
  CHECK(summary["weights_sha256"] == walked["weights_sha256"]);
  CHECK(state_in(folder / "run")["replayed"] == false);
}

TEST_CASE("--cuda-graph on, where no graph can be made, ends with 4 and says how to go without") {
  const std::string function =
      GENERATE("cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphUpload");
  CAPTURE(function);
  give_gpus(1);
  const TemporaryFolder folder;
  Program run(words_of_faulty_run(1, function) + short_steps +
              Words{"--cuda-graph=on", "--run-dir", (folder / "run").string()});
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 4);
  CHECK_THAT(run.output(),
             contains("fails on demand") && contains("try --cuda-graph off") && !contains("Xid"));
}

}  // namespace lockstep::tests
