// More ranks than GPUs, and runs that a GPU's memory does not hold.
#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// The number between `before` and `after`.
std::int64_t number_between(const std::string& text, const std::string& before, const std::string& after) {
  const auto end = text.find(after);
  const auto start = text.rfind(before, end);
  INFO(text);
  REQUIRE(end != std::string::npos);
  REQUIRE(start != std::string::npos);
  return std::stol(text.substr(start + before.size(), end - start - before.size()));
}

TEST_CASE("ranks that share GPUs where launch allows it learn what others learn") {
  const std::string backend = GENERATE("auto", "host", "nccl");
  CAPTURE(backend);
  const Words options = small_images + sgd + Words{"--model=simplecnn", "--batch-size=16", "--max-steps=10"};
  const TemporaryFolder folder;
  train(3, options + Words{"--device=cpu"}, folder.path() / "cpu");
  give_gpus(2);
  Program run(Words{LAUNCH_PROGRAM, "--allow-gpu-sharing", "--nproc_per_node=3", TRAINER_PROGRAM} + options +
              Words{"--backend=" + backend, "--run-dir", (folder.path() / "gpu").string()});
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  const auto summary = nlohmann::json::parse(contents(folder.path() / "gpu" / "summary.json"));
  CHECK(summary["backend"] == (backend == "auto" ? "host" : backend));
  check_same_losses(folder.path() / "gpu", folder.path() / "cpu", 1e-5);
}

TEST_CASE("two ranks on the one GPU of a machine, or on one that is named, are refused") {
  const int gpus = GENERATE(1, 2);
  const std::string device = gpus == 1 ? "cuda" : "cuda:1";
  give_gpus(gpus);
  const TemporaryFolder folder;
  Program run(trainer_words(2, small_images + Words{"--model=mlp", "--device=" + device, "--run-dir",
                                                    (folder.path() / "run").string()}));
  CHECK(run.wait_for_end() == 2);
  CHECK(run.output().find("ranks 0 and 1 share a GPU") != std::string::npos);
  CHECK(run.output().find("launch --allow-gpu-sharing") != std::string::npos);
}

TEST_CASE("a run that a GPU's memory cannot hold is refused with the largest batch that it can") {
  const int ranks = GENERATE(1, 2);
  const bool global = GENERATE(false, true);
  CAPTURE(ranks, global);
  give_gpus(ranks);
  const Variable memory("SIMGPU_MEMORY_MB", "48");
  const TemporaryFolder folder;
  const auto run_with = [&](std::int64_t batch) {
    const std::string option = global ? "--global-batch=" : "--batch-size=";
    Program run(
        trainer_words(ranks, Words{"--model=mlp", "--dataset=synthetic", "--samples=20000",
                                   "--image-shape=1x28x28", "--max-steps=1", "--eval-every=0",
                                   "--device=cuda", option + std::to_string(global ? batch * ranks : batch),
                                   "--run-dir", (folder.path() / std::to_string(batch)).string()}));
    return std::pair(run.wait_for_end(), run.output());
  };
  const auto [code, words] = run_with(10000);
  INFO(words);
  REQUIRE(code == 4);
  const std::string option = global ? "--global-batch " : "--batch-size ";
  const std::int64_t fitting = number_between(words, option, " fits") / (global ? ranks : 1);
  CHECK(fitting > 1000);
  CHECK(run_with(fitting).first == 0);
  CHECK(run_with(fitting + 1).first == 4);
}

TEST_CASE("ranks that share a GPU may each take their part of its memory alone") {
  give_gpus(1);
  const Variable memory("SIMGPU_MEMORY_MB", "96");
  const TemporaryFolder folder;
  const auto run_with = [&](std::int64_t batch) {
    Program run(Words{LAUNCH_PROGRAM, "--allow-gpu-sharing", "--nproc_per_node=2", TRAINER_PROGRAM,
                      "--model=mlp", "--dataset=synthetic", "--samples=20000", "--image-shape=1x28x28",
                      "--max-steps=1", "--eval-every=0", "--device=cuda",
                      "--batch-size=" + std::to_string(batch), "--run-dir",
                      (folder.path() / std::to_string(batch)).string()});
    return std::pair(run.wait_for_end(), run.output());
  };
  const auto [code, words] = run_with(10000);
  INFO(words);
  REQUIRE(code == 4);
  CHECK_THAT(words, contains("MiB free for each of its 2 ranks"));
  const std::int64_t fitting = number_between(words, "--batch-size ", " fits");
  CHECK(fitting > 1000);
  CHECK(run_with(fitting).first == 0);
  CHECK(run_with(fitting + 1).first == 4);
}

TEST_CASE("--batch-size auto takes what fits the fullest GPU, and a run that goes on keeps it") {
  const int ranks = GENERATE(1, 2);
  give_gpus(ranks);
  const TemporaryFolder folder;
  const auto run_with = [&](const char* mebibytes, const Words& more) {
    const Variable memory("SIMGPU_MEMORY_MB", mebibytes);
    Program run(trainer_words(ranks, Words{"--model=mlp", "--dataset=synthetic", "--samples=20000",
                                           "--image-shape=1x28x28", "--eval-every=0", "--device=cuda"} +
                                         more));
    const int code = run.wait_for_end();
    INFO(run.output());
    REQUIRE(code == 0);
    const std::string config = contents(folder.path() / "run" / "config.ini");
    return number_between(config, "batch-size = ", "\nnum-workers");
  };
  const Words automatic{"--batch-size=auto", "--checkpoint-every=1", "--run-dir",
                        (folder.path() / "run").string()};
  const auto fitting = run_with("48", automatic + Words{"--max-steps=1"});
  CHECK(fitting > 1000);
  CHECK(fitting < 10000);
  CHECK(run_with("96", automatic + Words{"--max-steps=2", "--resume=auto"}) == fitting);
}

TEST_CASE("--batch-size auto with --benchmark takes the fastest of what fits and of powers of two below it") {
  const int ranks = GENERATE(1, 2);
  give_gpus(ranks);
  const TemporaryFolder folder;
  const Variable memory("SIMGPU_MEMORY_MB", "48");
  Program run(trainer_words(
      ranks, Words{"--model=mlp", "--dataset=synthetic", "--samples=600", "--image-shape=1x28x28",
                   "--eval-every=0", "--device=cuda", "--batch-size=auto", "--benchmark", "--max-steps=1",
                   "--run-dir", (folder.path() / "run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  REQUIRE(code == 0);
  const std::string output = run.output();
  const auto begin = output.find(" by batch: ");
  REQUIRE(begin != std::string::npos);
  const auto chosen =
      number_between(contents(folder.path() / "run" / "config.ini"), "batch-size = ", "\nnum-workers");
  double least = std::numeric_limits<double>::infinity();
  double of_chosen = least;
  std::vector<std::int64_t> tried;
  std::istringstream rest(output.substr(begin + 11, output.find('\n', begin) - begin - 11));
  double microseconds = 0;
  std::string unit;
  for (std::int64_t batch = 0; rest >> batch >> microseconds >> unit;) {
    tried.push_back(batch);
    least = std::min(least, microseconds);
    if (batch == chosen) of_chosen = microseconds;
  }
  CHECK(tried == (ranks == 1 ? std::vector<std::int64_t>{600, 512, 256, 128, 64}
                             : std::vector<std::int64_t>{300, 256, 128, 64, 32}));
  CHECK(of_chosen == least);  // of those that are printed alike any may be the fastest
}

TEST_CASE("--batch-size auto is refused where no GPU's memory tells how much fits") {
  const TemporaryFolder folder;
  Program run(trainer_words(1, small_images + Words{"--model=mlp", "--device=cpu", "--batch-size=auto",
                                                    "--run-dir", (folder.path() / "run").string()}));
  CHECK(run.wait_for_end() == 2);
  CHECK(run.output().find("--batch-size auto is for GPUs") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "run"));
}

TEST_CASE("a model that no batch makes small enough is told so") {
  give_gpus(1);
  const Variable memory("SIMGPU_MEMORY_MB", "24");
  const TemporaryFolder folder;
  Program run(trainer_words(1, small_images + Words{"--model=convnet", "--max-steps=1", "--device=cuda",
                                                    "--run-dir", (folder.path() / "run").string()}));
  CHECK(run.wait_for_end() == 4);
  CHECK(run.output().find("not even --batch-size 1 fits") != std::string::npos);
}

TEST_CASE("a run that just fits a GPU's memory starts and saves there, however large a parameter is") {
  give_gpus(1);
  const TemporaryFolder folder;
  const auto run_with = [&](std::int64_t mebibytes) {
    const Variable memory("SIMGPU_MEMORY_MB", std::to_string(mebibytes));
    Program run(trainer_words(
        1,
        Words{"--model=mlp", "--dataset=synthetic", "--samples=2", "--image-shape=3x192x192",
              "--batch-size=2", "--optimizer=sgd", "--max-steps=1", "--checkpoint-every=1", "--eval-every=0",
              "--device=cuda", "--run-dir", (folder.path() / std::to_string(mebibytes)).string()}));
    return std::pair(run.wait_for_end(), run.output());
  };
  const auto [refused, words] = run_with(64);
  REQUIRE(refused == 4);
  const std::int64_t needed = number_between(words, "of GPU memory (", " bytes)");
  const auto [code, output] = run_with(needed / (1 << 20) + 1);
  INFO(output);
  CHECK(code == 0);
}

TEST_CASE("what a run holds is what its plan said, however it exchanges") {
  const int ranks = GENERATE(1, 2);
  const std::string backend = GENERATE("nccl", "host");
  CAPTURE(ranks, backend);
  give_gpus(ranks);
  const Words options{"--dataset=synthetic", "--image-shape=3x12x12", "--model=simplecnn", "--device=cuda"};
  const TemporaryFolder folder;
  const auto summary =
      train(ranks, options + Words{"--max-steps=1", "--eval-every=0", "--backend=" + backend},
            folder.path() / "run");
  const std::string world = "WORLD_SIZE=" + std::to_string(ranks);
  Program plan(Words{"/usr/bin/env", "RANK=0", "LOCAL_RANK=0", world, "MASTER_ADDR=127.0.0.1",
                     "MASTER_PORT=1", TRAINER_PROGRAM, "plan"} +
               options);
  REQUIRE(plan.wait_for_end() == 0);
  const std::string output = plan.output();
  const std::int64_t peak = number_between(output.substr(output.rfind("peak ")), "(", " bytes)");
  CHECK(summary["plan_bytes"] == peak);
}

}  // namespace
}  // namespace lockstep::tests
