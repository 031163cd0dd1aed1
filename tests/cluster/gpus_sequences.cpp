// Padded sequences on GPUs: classes of tokens, unequal numbers of them, batches cut to lengths.
#include "tests/cluster/gpus.h"
#include "tests/cluster/sequences.h"

namespace lockstep::tests {
namespace {

TEST_CASE("tokens on GPUs: ranks train as one and as CPUs do, walked and in graphs, in micro-batches too") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options =
      of_tokens + data_in(padded_files(folder).per_token) + sgd +
      Words{"--model=tagger", "--global-batch=16", "--max-steps=20", "--eval-every=1", "--epochs=2"};
  const Words on_gpus = options + Words{"--device=cuda"};
  const auto cpu = train(1, options + Words{"--device=cpu"}, folder / "cpu");
  const auto alone = train(1, on_gpus, folder / "alone");
  const auto walked = train(2, on_gpus + Words{"--cuda-graph=off"}, folder / "walked");
  const auto graphs = train(2, on_gpus + Words{"--cuda-graph=on"}, folder / "graphs");
  train(2, on_gpus + Words{"--accumulate-steps=2"}, folder / "parts");
  CHECK(graphs["weights_sha256"] == walked["weights_sha256"]);
  for (const char* run : {"alone", "walked", "parts"}) {
    INFO(run);
    check_same_losses(folder / run, folder / "cpu", 1e-4);  // sums of f32 in another order
  }
  CHECK(walked["eval"]["loss"].get<double>() == Approx(cpu["eval"]["loss"].get<double>()).epsilon(1e-4));
}

}  // namespace
}  // namespace lockstep::tests
