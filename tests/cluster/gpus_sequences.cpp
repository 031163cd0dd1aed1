// Padded sequences on GPUs: classes of tokens, unequal numbers of them, batches cut to lengths.
#include "tests/cluster/gpus.h"
#include "tests/cluster/recurrent_states.h"
#include "tests/cluster/saved_state.h"
#include "tests/cluster/sequences.h"

namespace lockstep::tests {
namespace {

TEST_CASE("padded tokens on GPUs: ranks train as one and as CPUs do, in micro-batches too") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options =
      of_tokens + data_in(padded_files(folder).per_token) + sgd +
      Words{"--model=tagger", "--global-batch=16", "--max-steps=20", "--eval-every=1", "--epochs=2"};
  const Words on_gpus = options + Words{"--device=cuda"};
  const auto cpu = train(1, options + Words{"--device=cpu"}, folder / "cpu");
  const auto alone = train(1, on_gpus, folder / "alone");
  const auto graphs = train(1, on_gpus + Words{"--cuda-graph=on"}, folder / "graphs");
  const auto both = train(2, on_gpus, folder / "both");
  train(2, on_gpus + Words{"--accumulate-steps=2"}, folder / "parts");
  CHECK(graphs["weights_sha256"] == alone["weights_sha256"]);
  for (const char* run : {"alone", "both", "parts"}) {
    INFO(run);
    check_same_losses(folder / run, folder / "cpu", 1e-4);  // sums of f32 in another order
  }
  CHECK(both["eval"]["loss"].get<double>() == Approx(cpu["eval"]["loss"].get<double>()).epsilon(1e-4));
  // Ranks with batches of different lengths cannot all be in a graph in the same step.
  Program refused(
      trainer_words(2, on_gpus + Words{"--cuda-graph=on", "--run-dir", (folder / "no").string()}));
  CHECK(refused.wait_for_end() == 2);
  CHECK(refused.output().find("graphs need sequences of one length") != std::string::npos);
}

TEST_CASE("padded tokens that one GPU replayed as graphs go on without on two, where none asked for graphs") {
  give_gpus(2);
  const TemporaryFolder folder;
  const auto run_dir = folder / "run";
  const Words options =
      of_tokens + data_in(padded_files(folder).per_token) + sgd +
      Words{"--model=tagger", "--global-batch=16", "--checkpoint-every=4", "--eval-every=0", "--device=cuda"};
  train(1, options + Words{"--max-steps=4"}, run_dir);
  auto state = state_in(run_dir);
  state["replayed"] = true;  // as after so many steps that `auto` has decided
  replace_state(run_dir, state);
  train(2, options + Words{"--max-steps=8", "--resume=auto"}, run_dir);
  CHECK_FALSE(state_in(run_dir).contains("replayed"));
}

TEST_CASE("tokens of one length on GPUs: the same bits walked and in graphs") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options = of_tokens + sgd + Words{"--model=tagger", "--dataset=synthetic", "--samples=200",
                                                "--batch-size=8", "--max-steps=10",      "--device=cuda"};
  const auto walked = train(2, options + Words{"--cuda-graph=off"}, folder / "walked");
  const auto graphs = train(2, options + Words{"--cuda-graph=on"}, folder / "graphs");
  CHECK(graphs["weights_sha256"] == walked["weights_sha256"]);
}

TEST_CASE("states before the first step and behind the last on GPUs are those of CPUs") {
  give_gpus(2);
  const TemporaryFolder folder;
  const RecurrentData data(lstm_states);
  const auto file = data.file(folder, "data.safetensors", 0, steps, &data.first);
  const Words options = recurrent_options(lstm_states) + data_in(file) + sgd + Words{"--global-batch=8"};
  const auto cpu = train(1, options + Words{"--device=cpu"}, folder / "cpu");
  train(2, options + Words{"--device=cuda"}, folder / "gpus");
  check_same_losses(folder / "gpus", folder / "cpu", 1e-4);  // sums of f32 in another order
  const auto run = (folder / "cpu").string();
  const auto on_cpu = states_in(predicted(folder, "on_cpu", 1, {run, "--data-dir", file, "--device=cpu"}));
  const auto on_gpus = states_in(predicted(folder, "on_gpus", 2, {run, "--data-dir", file, "--device=cuda"}));
  REQUIRE(on_cpu.size() == on_gpus.size());
  for (std::size_t i = 0; i < on_cpu.size(); ++i)
    CHECK(on_gpus[i] == Approx(on_cpu[i]).margin(1e-5));  // as above
}

}  // namespace
}  // namespace lockstep::tests
