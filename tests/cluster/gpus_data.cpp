// How pictures get to a GPU.
#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

const Words pictures{"--dataset=fashion-mnist",
                     "--transform=pad-crop=3,flip,normalise=0.286/0.353",
                     "--eval-transform=normalise=0.286/0.353",
                     "--model=mlp",
                     "--batch-size=16",
                     "--threads=1",
                     "--seed=7",
                     "--log-every=1",
                     "--num-workers=1"};
const Words evaluated{"--eval-samples=70"};

TEST_CASE("pictures that a GPU keeps, or that travel to it, train to the same bits") {
  const int ranks = GENERATE(1, 2);
  CAPTURE(ranks);
  give_gpus(ranks);
  const TemporaryFolder folder;
  const Words on_gpu = pictures + evaluated + sgd + Words{"--device=cuda", "--max-steps=6"};
  const auto host = train(ranks, on_gpu + Words{"--data-device=host"}, folder.path() / "host");
  const auto gpu = train(ranks, on_gpu + Words{"--data-device=gpu"}, folder.path() / "gpu");
  const auto pageable =
      train(ranks, on_gpu + Words{"--data-device=host", "--pin-memory=off"}, folder.path() / "pageable");
  CHECK(host["data_device"] == "host");
  CHECK(gpu["data_device"] == "gpu");
  for (const auto& other : {gpu, pageable}) {
    CHECK(other["weights_sha256"] == host["weights_sha256"]);
    CHECK(other["eval"] == host["eval"]);
  }
  CHECK(losses(folder.path() / "gpu") == losses(folder.path() / "host"));
  // 70,000 pictures of 784 bytes; a batch then brings 16 rows of 32 bytes and their classes.
  CHECK(gpu["plan_bytes"].get<std::int64_t>() > host["plan_bytes"].get<std::int64_t>() + 54'000'000);
  CHECK(gpu["pinned_bytes"].get<std::int64_t>() < host["pinned_bytes"].get<std::int64_t>());
  CHECK(pageable["pinned_bytes"] == 0);
}

TEST_CASE("a run goes on with its pictures on the other side") {
  give_gpus(1);
  const TemporaryFolder folder;
  const Words on_gpu = pictures + sgd + Words{"--device=cuda", "--eval-every=0"};
  const auto whole = train(1, on_gpu + Words{"--max-steps=6", "--data-device=host"}, folder.path() / "whole");
  train(1, on_gpu + Words{"--max-steps=3", "--data-device=host", "--checkpoint-every=3"},
        folder.path() / "parts");
  const auto rest = train(1, on_gpu + Words{"--max-steps=6", "--data-device=gpu", "--resume=auto"},
                          folder.path() / "parts");
  CHECK(rest["weights_sha256"] == whole["weights_sha256"]);
}

TEST_CASE("auto keeps pictures on a GPU where they take an eighth of what is free, at most") {
  const bool fits = GENERATE(true, false);
  give_gpus(1);
  const Variable memory("SIMGPU_MEMORY_MB", fits ? "512" : "320");
  const TemporaryFolder folder;
  const auto summary = train(1, pictures + sgd + Words{"--device=cuda", "--max-steps=1", "--eval-every=0"},
                             folder.path() / "run");
  // 60,000 of them: 44.9 MiB.
  CHECK(summary["data_device"] == (fits ? "gpu" : "host"));
}

TEST_CASE("--data-device gpu is refused where no GPU could keep the samples") {
  give_gpus(1);
  const TemporaryFolder folder;
  const auto refused = [&](const Words& options, const std::string& reason) {
    Program run(trainer_words(1, options + Words{"--data-device=gpu", "--max-steps=1", "--run-dir",
                                                 (folder.path() / "run").string()}));
    CHECK(run.wait_for_end() == 2);
    CHECK(run.output().find(reason) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "run"));
  };
  refused(pictures + Words{"--device=cpu"}, "--data-device gpu: this run computes on the CPU");
  refused(small_images + Words{"--model=mlp", "--device=cuda"}, "not these samples");
  refused(pictures + Words{"--device=cuda", "--transform=resize=14", "--eval-transform=resize=14"},
          "these pictures are decoded or resized one by one");
}

}  // namespace
}  // namespace lockstep::tests
