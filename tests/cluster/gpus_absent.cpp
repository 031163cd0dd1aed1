#include "tests/cluster/gpus.h"
#include "tests/support/text.h"

namespace lockstep::tests {
namespace {

const Words mlp = small_images + sgd + Words{"--model=mlp", "--batch-size=16", "--max-steps=3"};

}  // namespace

TEST_CASE("where there is no GPU a build with CUDA trains on the CPU, and says so in one line") {
  const int ranks = GENERATE(1, 2);
  give_gpus(0);
  const TemporaryFolder folder;
  const std::filesystem::path run_dir = folder.path() / "run";
  Program run(trainer_words(ranks, mlp + Words{"--run-dir", run_dir.string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 0);
  CHECK(count_of(run.output(), "no GPU is visible: computes on the CPU") == 1);
  const auto summary = nlohmann::json::parse(contents(run_dir / "summary.json"));
  CHECK(summary["device"].get<std::string>().find("simulated") == std::string::npos);
  CHECK(summary["steps"] == 3);
}

TEST_CASE("where there is no GPU --device cuda is refused, with the hint") {
  const std::string device = GENERATE("cuda", "cuda:0");
  give_gpus(0);
  const TemporaryFolder folder;
  const std::filesystem::path run_dir = folder.path() / "run";
  Program run(trainer_words(1, mlp + Words{"--device=" + device, "--run-dir", run_dir.string()}));
  CHECK(run.wait_for_end() == 4);
  CHECK_THAT(run.output(), contains("error: --device " + device) && contains("use --device cpu"));
  CHECK(count_of(run.output(), "\n") == 1);
  CHECK_FALSE(std::filesystem::exists(run_dir));
}

}  // namespace lockstep::tests
