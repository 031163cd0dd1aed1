// Padded sequences, whose batches are cut.
#include "tests/cluster/sequences.h"
#include "tests/support/largest_difference.h"

namespace lockstep::tests {

TEST_CASE("ranks cut their batches to lengths of their own and learn what one rank learns") {
  const TemporaryFolder folder;
  const PaddedFiles files = padded_files(folder);
  for (const bool tagged : {true, false}) {
    const Words options = of_tokens + data_in(tagged ? files.per_token : files.per_row) +
                          Words{tagged ? "--model=tagger" : "--model=bag",
                                "--optimizer=sgd",
                                tagged ? "--lr=0.1" : "--lr=0.002",
                                "--epochs=2",
                                "--global-batch=16",
                                "--eval-every=2"};
    const auto run = [&](const char* name) { return folder / (name + std::to_string(tagged)); };
    const auto one = train(1, options, run("1"));
    for (const int ranks : {2, 4}) {
      const auto summary = train(ranks, options, run("many"));
      CHECK(summary["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(2e-5));
      CHECK(summary["eval"]["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-5));
      CHECK(largest_difference(run("1"), run("many")) < 2e-5);
      const auto again = train(ranks, options + Words{"--num-workers=3", "--no-overlap"}, run("again"));
      CHECK(again["weights_sha256"] == summary["weights_sha256"]);
      std::filesystem::remove_all(run("many"));
      std::filesystem::remove_all(run("again"));
    }
    // Whose batches are other ones.
    const auto scores = lines_of(output_of(2, {"eval", run("1").string()}));
    CHECK(scores.at(0)["accuracy"] == one["eval"]["accuracy"]);
    CHECK(scores.at(0)["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-5));
  }
  const Words mixed =
      of_tokens + data_in(files.per_token) + Words{"--model=tagger", "--epochs=1", "--eval-every=0"};
  const auto half = train(2, mixed + Words{"--amp"}, folder / "half");
  const auto full = train(2, mixed, folder / "full");
  CHECK(half["final_loss"].get<double>() == Approx(full["final_loss"].get<double>()).epsilon(2e-2));
}

}  // namespace lockstep::tests
