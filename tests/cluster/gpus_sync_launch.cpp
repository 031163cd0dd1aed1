// --sync-launch: an error of a GPU names the op and the kernel that it comes of. A kernel that fails, whose
// error the host learns late: on the machine in software alone.
#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

const Words short_run =
    small_images + sgd +
    Words{"--model=mlp", "--batch-size=8", "--device=cuda", "--max-steps=6", "--progress=plain"};

/// The output of a run that the third run of relu's backward, in each rank, ends.
std::string output_of_faulty_run(int ranks, const Words& options) {
  give_gpus(ranks);
  const Variable policy("SIMGPU_POLICY", "lazy");
  const Variable fault("SIMGPU_FAIL_KERNEL", "pointwise.cu@3");
  const TemporaryFolder folder;
  Program run(trainer_words(ranks, short_run + options + Words{"--run-dir", (folder / "run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 4);
  return run.output();
}

const std::string named = "step 3, relu relu_backward: cuda: the kernel launched in pointwise.cu:";

}  // namespace

TEST_CASE("--sync-launch names layer, op and kernel of an error that comes late otherwise") {
  CHECK_THAT(output_of_faulty_run(1, {}), contains("--sync-launch names it") && !contains("relu_backward"));
  CHECK_THAT(output_of_faulty_run(1, {"--sync-launch"}), contains("rank 0, " + named));
  CHECK_THAT(output_of_faulty_run(2, {"--sync-launch"}), contains(named));
  const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
  CHECK_THAT(output_of_faulty_run(1, {}), contains("rank 0, " + named));
}

TEST_CASE("what the driver refuses is a fault of the program, and nobody is sent to look at the hardware") {
  const std::string function = GENERATE("cudaLaunchKernel", "cudaMemGetInfo");
  CAPTURE(function);
  give_gpus(1);
  const Variable fault("SIMGPU_FAIL_CALL", function + "@1");
  const TemporaryFolder folder;
  Program run(trainer_words(1, short_run + Words{"--run-dir", (folder / "run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 4);
  CHECK_THAT(run.output(), contains("report it with what `trainer devices` prints") && !contains("Xid"));
}

TEST_CASE("--sync-launch changes no bit, and there are no graphs with it") {
  const int ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  give_gpus(ranks);
  const TemporaryFolder folder;
  const auto plain = train(ranks, short_run + Words{"--cuda-graph=off"}, folder / "plain");
  const auto waiting = train(ranks, short_run + Words{"--sync-launch"}, folder / "waiting");
  CHECK(waiting.at("weights_sha256") == plain.at("weights_sha256"));
  Program refused(trainer_words(ranks, short_run + Words{"--sync-launch", "--cuda-graph=on", "--run-dir",
                                                         (folder / "refused").string()}));
  CHECK(refused.wait_for_end() == 2);
  CHECK_THAT(refused.output(), contains("--cuda-graph on: --sync-launch waits behind each op"));
}

}  // namespace lockstep::tests
