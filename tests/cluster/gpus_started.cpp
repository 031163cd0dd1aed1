#include "tests/cluster/gpus.h"
#include "tests/cluster/mpirun.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

const Words convnet = small_images + sgd + Words{"--model=convnet", "--batch-size=8", "--max-steps=6"};

nlohmann::json run_to_its_end(const Words& words, const std::filesystem::path& run_dir) {
  Program run(words + Words{"--run-dir", run_dir.string()});
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  return nlohmann::json::parse(contents(run_dir / "summary.json"));
}

void check_summary(const nlohmann::json& summary, int ranks) {
  CHECK(summary["world_size"] == ranks);
  CHECK(summary["backend"] == "nccl");
  CHECK_THAT(summary["device"].get<std::string>(), contains("simulated"));
}

}  // namespace

TEST_CASE("launch --nproc_per_node=gpu starts a rank on each GPU; they learn what ranks on CPUs learn") {
  const int gpus = GENERATE(4, 8);
  CAPTURE(gpus);
  give_gpus(gpus);
  const TemporaryFolder folder;
  train(gpus, convnet + Words{"--device=cpu"}, folder.path() / "cpu");
  const auto summary = run_to_its_end(Words{LAUNCH_PROGRAM, "--nproc_per_node=gpu", TRAINER_PROGRAM} +
                                          convnet + Words{"--device=cuda", "--backend=nccl"},
                                      folder.path() / "gpu");
  check_summary(summary, gpus);
  check_same_losses(folder.path() / "gpu", folder.path() / "cpu", 1e-5);
}

TEST_CASE("mpirun -np 4 starts ranks on four GPUs; they learn what ranks on CPUs learn") {
  if (!std::filesystem::exists(MPIRUN)) return skip("this machine has no mpirun");
  constexpr int ranks = 4;
  const int gpus = GENERATE(4, 8);
  CAPTURE(gpus);
  give_gpus(gpus);
  const TemporaryFolder folder;
  train(ranks, convnet + Words{"--device=cpu"}, folder.path() / "cpu");
  const auto summary = run_to_its_end(
      mpirun_words(ranks, Words{TRAINER_PROGRAM} + convnet + Words{"--device=cuda", "--backend=nccl"}),
      folder.path() / "gpu");
  check_summary(summary, ranks);
  check_same_losses(folder.path() / "gpu", folder.path() / "cpu", 1e-5);
}

}  // namespace lockstep::tests
