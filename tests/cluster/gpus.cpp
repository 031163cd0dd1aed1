#include <signal.h>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// Waiting included: on the machine in software the last rank to come may find all done.
double exchange_ms(const nlohmann::json& summary) {
  return summary["comm_ms"].get<double>() + summary["skew_ms"].get<double>();
}

TEST_CASE("ranks on GPUs learn what ranks on CPUs learn") {
  const std::string model = GENERATE("linear", "mlp", "simplecnn", "convnet");
  const bool adam = GENERATE(false, true);
  const int ranks = GENERATE(1, 4);
  CAPTURE(model, adam, ranks);
  give_gpus(ranks);
  const Words data = model == "linear" ? Words{"--dataset=synthetic", "--samples=500",  "--seed=7",
                                               "--log-every=1",       "--eval-every=0", "--threads=1"}
                                       : small_images;
  const Words options = data + Words{"--model=" + model, "--batch-size=16", "--max-steps=10"} +
                        (adam ? Words{"--optimizer=adam"} : sgd);
  const TemporaryFolder folder;
  train(ranks, options + Words{"--device=cpu"}, folder.path() / "cpu");
  const auto summary = train(ranks, options + Words{"--device=cuda"}, folder.path() / "gpu");
  CHECK(summary["backend"] == (ranks == 1 ? "solo" : "nccl"));
  CHECK((exchange_ms(summary) > 0) == (ranks > 1));
  check_same_losses(folder.path() / "gpu", folder.path() / "cpu", adam ? 1e-3 : 1e-5);
}

TEST_CASE("graphs, overlap and their absence give the same bits on GPUs") {
  const int ranks = GENERATE(1, 2);
  give_gpus(ranks);
  const Words options =
      small_images + sgd + Words{"--model=convnet", "--batch-size=16", "--max-steps=12", "--device=cuda"};
  const TemporaryFolder folder;
  const auto walked = train(ranks, options + Words{"--cuda-graph=off"}, folder.path() / "off");
  const auto replayed = train(ranks, options + Words{"--cuda-graph=on"}, folder.path() / "on");
  const auto serial =
      train(ranks, options + Words{"--cuda-graph=off", "--no-overlap"}, folder.path() / "serial");
  CHECK(walked["weights_sha256"] == replayed["weights_sha256"]);
  CHECK(walked["weights_sha256"] == serial["weights_sha256"]);
  for (const auto& summary : {walked, replayed, serial}) {
    CHECK((exchange_ms(summary) > 0) == (ranks > 1));
    CHECK((summary["exposed_comm_ms"] > 0) == (ranks > 1));
  }
}

TEST_CASE(
    "micro-batches on GPUs: what CPUs learn; graphs, overlap, --recompute and their absence change no bit") {
  const int ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  give_gpus(ranks);
  // 250 samples of each of two ranks: 8 steps of 3 x 10 and a rest of 10 in one micro-batch.
  const Words options = small_images + sgd +
                        Words{"--model=convnet", "--batch-size=10", "--accumulate-steps=3", "--max-steps=12"};
  const TemporaryFolder folder;
  train(ranks, options + Words{"--device=cpu"}, folder.path() / "cpu");
  const Words gpu = options + Words{"--device=cuda"};
  const auto walked = train(ranks, gpu + Words{"--cuda-graph=off"}, folder.path() / "off");
  check_same_losses(folder.path() / "off", folder.path() / "cpu", 1e-5);
  for (const Words& more : {Words{"--cuda-graph=on"}, Words{"--cuda-graph=off", "--no-overlap"},
                            Words{"--cuda-graph=on", "--recompute"}}) {
    const auto other = train(ranks, gpu + more, folder.path() / (more.front() + more.back()));
    CHECK(walked["weights_sha256"] == other["weights_sha256"]);
  }
}

TEST_CASE(
    "clipped gradients: GPUs learn what CPUs learn; graphs, overlap and their absence give the same bits") {
  const int ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  give_gpus(ranks);
  const Words options =
      small_images + sgd +
      Words{"--model=simplecnn", "--batch-size=16", "--max-steps=12", "--clip-grad-norm=0.5"};
  const TemporaryFolder folder;
  train(ranks, options + Words{"--device=cpu"}, folder.path() / "cpu");
  const Words gpu = options + Words{"--device=cuda"};
  const auto walked = train(ranks, gpu + Words{"--cuda-graph=off"}, folder.path() / "off");
  check_same_losses(folder.path() / "off", folder.path() / "cpu", 1e-5);
  const auto replayed = train(ranks, gpu + Words{"--cuda-graph=on"}, folder.path() / "on");
  const auto serial = train(ranks, gpu + Words{"--cuda-graph=off", "--no-overlap"}, folder.path() / "serial");
  CHECK(walked["weights_sha256"] == replayed["weights_sha256"]);
  CHECK(walked["weights_sha256"] == serial["weights_sha256"]);
  if (ranks == 1) return;
  train(ranks, gpu + Words{"--backend=host"}, folder.path() / "host");
  check_same_losses(folder.path() / "host", folder.path() / "cpu", 1e-5);
}

TEST_CASE("gradients of GPUs that are summed on the host") {
  give_gpus(2);
  const Words options = small_images + sgd + Words{"--model=simplecnn", "--batch-size=16", "--max-steps=10"};
  const TemporaryFolder folder;
  train(2, options + Words{"--device=cpu"}, folder.path() / "cpu");
  const auto summary = train(2, options + Words{"--device=cuda", "--backend=host"}, folder.path() / "gpu");
  CHECK(summary["backend"] == "host");
  check_same_losses(folder.path() / "gpu", folder.path() / "cpu", 1e-5);
}

TEST_CASE("a run on GPUs goes on to the bit after a checkpoint") {
  give_gpus(2);
  const Words options = small_images + sgd +
                        Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--checkpoint-every=6"};
  const TemporaryFolder folder;
  const auto whole = train(2, options + Words{"--max-steps=12"}, folder.path() / "whole");
  train(2, options + Words{"--max-steps=6"}, folder.path() / "halves");
  const auto halves = train(2, options + Words{"--max-steps=12", "--resume=auto"}, folder.path() / "halves");
  CHECK(whole["weights_sha256"] == halves["weights_sha256"]);
}

TEST_CASE("more ranks than GPUs are refused before anything starts") {
  give_gpus(2);
  const TemporaryFolder folder;
  Program run(trainer_words(3, small_images + Words{"--model=mlp", "--device=cuda", "--run-dir",
                                                    (folder.path() / "run").string()}));
  CHECK(run.wait_for_end() == 2);
  CHECK(run.output().find("2 are visible") != std::string::npos);
}

TEST_CASE("a killed rank ends the others, whether its step is a graph or not") {
  const std::string graphs = GENERATE("on", "off");
  give_gpus(3);
  const TemporaryFolder folder;
  // The words of `sh` are printed before the trainer takes its place.
  Program run(Words{LAUNCH_PROGRAM, "--nproc_per_node=3", "sh", "-c", "echo pid$RANK=$$; exec \"$@\"", "sh",
                    TRAINER_PROGRAM} +
              small_images + sgd +
              Words{"--model=simplecnn", "--device=cuda", "--max-steps=1000000", "--progress=plain",
                    "--timeout=5", "--cuda-graph=" + graphs, "--run-dir", (folder.path() / "run").string()});
  for (int rank = 0; rank < 3; ++rank) run.wait_for("pid" + std::to_string(rank) + "=");
  run.wait_for("step ", 2);
  const pid_t killed = run.number_after("pid1");
  const auto start = Clock::now();
  ::kill(killed, SIGKILL);
  CHECK(run.wait_for_end() == 128 + SIGKILL);
  CHECK(Clock::now() - start < std::chrono::seconds(7));
  CHECK(run.output().find("rank 1 (pid " + std::to_string(killed) + ")") != std::string::npos);
  for (int rank = 0; rank < 3; ++rank) CHECK(wait_until_gone(run.number_after("pid" + std::to_string(rank))));
}

TEST_CASE("any call of CUDA may fail: one line, 4, and nothing leaks") {
  give_gpus(1);
  const Variable leaks("SIMGPU_LEAKS", "1");
  const TemporaryFolder folder;
  const Words options{
      "--dataset=synthetic", "--samples=100", "--image-shape=3x8x8", "--max-steps=3", "--batch-size=8",
      "--eval-every=0",      "--quiet",       "--model=simplecnn",   "--device=cuda"};
  int failures = 0;
  int call = 1;
  for (bool has_failed = true; has_failed; call += call < 40 ? 1 : 13) {
    INFO("call " << call);
    const Variable fail("SIMGPU_FAIL_CALL", std::to_string(call));
    Program run(
        trainer_words(1, options + Words{"--run-dir", (folder.path() / std::to_string(call)).string()}));
    const int code = run.wait_for_end();
    INFO(run.output());
    has_failed = run.output().find("fails on demand") != std::string::npos;
    REQUIRE(code == (has_failed ? 4 : 0));
    if (has_failed)
      CHECK_THAT(run.output(),
                 contains("error: cuda: ") || contains("error: cuBLASLt: ") || contains("error: cuDNN: "));
    failures += has_failed;
  }
  CHECK(failures > 40);
}

}  // namespace
}  // namespace lockstep::tests
