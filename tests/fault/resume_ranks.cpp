// A run that goes on in mid-epoch on another number of ranks: which samples it sees, told by its weights.
#include "tests/fault/unit_vectors.h"

namespace lockstep::tests {
namespace {

TEST_CASE("an epoch begun on 2 ranks goes on with exactly its other samples, on 3 ranks and on 1") {
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const Words options = unit_vector_options(folder.path());
  const auto begun = [&](const std::string& name) {
    const auto run = folder / name;
    const auto summary = train(2, options + Words{"--batch-size=4", "--max-steps=2"}, run);
    CHECK(summary["samples"] == 16);
    return run;
  };
  const auto resume = [&](int ranks, const std::filesystem::path& run, const Words& more) {
    return train(ranks, options + Words{"--resume", "--epochs=1"} + more, run);
  };

  // 34 samples are left: two steps of 12 and one of 10, whose last two rows are padding.
  const auto on_three = begun("three");
  CHECK(resume(3, on_three, {"--batch-size=4"})["samples"] == unit_vector_count);
  CHECK(samples_by_step_size(on_three) == std::map<int, int>{{8, 16}, {12, 24}, {10, 10}});

  // One rank: three steps of 10 and one of 4.
  const auto on_one = begun("one");
  CHECK(resume(1, on_one, {"--batch-size=10"})["samples"] == unit_vector_count);
  CHECK(samples_by_step_size(on_one) == std::map<int, int>{{8, 16}, {10, 30}, {4, 4}});

  // The same steps of 10 in two parts each.
  const auto in_parts = begun("parts");
  CHECK(resume(1, in_parts, {"--batch-size=5", "--accumulate-steps=2"})["samples"] == unit_vector_count);
  CHECK(samples_by_step_size(in_parts) == samples_by_step_size(on_one));

  // Stopped once more on 3 ranks, then on 2 again.
  const auto often = begun("often");
  resume(3, often, {"--batch-size=4", "--max-steps=3"});
  const auto state = nlohmann::json::parse(contents(often / "checkpoints/latest/state.json"));
  CHECK(state["epoch_samples"] == 28);
  CHECK(state["dealt_from"] == 16);
  CHECK(resume(2, often, {"--batch-size=4"})["samples"] == unit_vector_count);
  CHECK(samples_by_step_size(often) == std::map<int, int>{{8, 32}, {12, 12}, {6, 6}});
}

TEST_CASE("a rest that was dealt anew goes on to the bit on the same ranks") {
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const Words options =
      unit_vector_options(folder.path()) + Words{"--batch-size=4", "--momentum=0.9", "--keep=0"};
  for (const char* name : {"whole", "parts"}) {
    train(2, options + Words{"--max-steps=2"}, folder / name);
  }
  const auto whole = train(3, options + Words{"--resume", "--epochs=2"}, folder / "whole");
  train(3, options + Words{"--resume", "--max-steps=4"}, folder / "parts");
  const auto parts = train(3, options + Words{"--resume", "--epochs=2"}, folder / "parts");
  CHECK(parts["weights_sha256"] == whole["weights_sha256"]);
  CHECK(parts["steps"] == whole["steps"]);
}

TEST_CASE("a learning rate that goes on elsewhere, as its epochs have other steps, is told") {
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const Words options = unit_vector_options(folder.path()) +
                        Words{"--batch-size=4", "--epochs=2", "--lr-schedule=linear", "--keep=0"};
  train(2, options, folder / "two");  // 7 steps an epoch
  // One rank: 9 steps of the rest, and 13 in the other epoch.
  Program one(
      trainer_words(1, options + Words{"--resume", (folder / "two/checkpoints/step-00000002").string(),
                                       "--run-dir", (folder / "one").string()}));
  const int code = one.wait_for_end();
  INFO(one.output());
  CHECK(code == 0);
  CHECK_THAT(one.output(), contains("the learning rate goes on at 9.167e-07, and not at 8.571e-07: its "
                                    "schedule has 24 steps on these ranks, and had 14"));
}

TEST_CASE("a run goes on within its warm-up on ranks that end it there, with a warning") {
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const Words options = unit_vector_options(folder.path()) +
                        Words{"--batch-size=4", "--epochs=1", "--warmup-steps=6", "--keep=0"};
  train(2, options, folder / "two");  // 7 steps
  // Four ranks make three steps of the rest.
  Program four(
      trainer_words(4, options + Words{"--resume", (folder / "two/checkpoints/step-00000002").string(),
                                       "--run-dir", (folder / "four").string()}));
  const int code = four.wait_for_end();
  INFO(four.output());
  CHECK(code == 0);
  CHECK_THAT(four.output(),
             contains("--warmup-steps 6 leaves none of 5 steps with the full rate; a smaller"));
}

TEST_CASE("a run goes back to an earlier step on other ranks only in a folder of its own") {
  const TemporaryFolder folder;
  write_unit_vectors(folder.path());
  const auto run = folder / "run";
  const Words options = unit_vector_options(folder.path()) + Words{"--batch-size=4", "--keep=0"};
  const auto first = train(2, options + Words{"--max-steps=4"}, run);
  const auto checkpoints = run / "checkpoints";
  const Words resume{"--resume", (checkpoints / "step-00000002").string()};
  Program one(trainer_words(1, options + resume + Words{"--run-dir", run.string()}));
  const int code = one.wait_for_end();
  INFO(one.output());
  CHECK(code == 2);
  CHECK_THAT(one.output(), contains("step-00000004 is later and was made with ranks 2 (now 1)"));
  CHECK(std::filesystem::read_symlink(checkpoints / "latest") == "step-00000004");
  CHECK(train(1, options + resume + Words{"--max-steps=3"}, folder / "other")["steps"] == 3);
  // The same ranks come by the later ones again.
  const auto again = train(2, options + resume + Words{"--max-steps=4"}, run);
  CHECK(again["weights_sha256"] == first["weights_sha256"]);
}

}  // namespace
}  // namespace lockstep::tests
