#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// Micro-batches of 24 samples over all ranks.
const Words synced = small_images + sgd +
                     Words{"--plugin=" NORMED_PLUGIN, "--model=normed",       "--sync-bn",    "--device=cuda",
                           "--global-batch=48",       "--accumulate-steps=2", "--max-steps=8"};

TEST_CASE("--sync-bn on GPUs: ranks train as one, walked and in graphs, by NCCL and through the host") {
  give_gpus(2);
  const TemporaryFolder folder;
  train(1, synced, folder.path() / "alone");
  const auto walked = train(2, synced + Words{"--cuda-graph=off"}, folder.path() / "walked");
  const auto graphs = train(2, synced + Words{"--cuda-graph=on"}, folder.path() / "graphs");
  const auto host = train(2, synced + Words{"--backend=host"}, folder.path() / "host");
  CHECK(walked["backend"] == "nccl");
  CHECK(graphs["weights_sha256"] == walked["weights_sha256"]);
  for (const char* run : {"walked", "host"}) {
    INFO(run);
    check_same_losses(folder.path() / run, folder.path() / "alone", 1e-4);  // sums of f32 in another order
  }
}

}  // namespace
}  // namespace lockstep::tests
