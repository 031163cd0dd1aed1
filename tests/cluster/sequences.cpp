// Sequences of tokens through a whole run: targets for each token, of which some do not count.
#include "tests/cluster/sequences.h"

#include <algorithm>
#include <array>

#include "kernels/base/philox.h"
#include "tests/support/largest_difference.h"
#include "tests/support/refusal.h"

namespace lockstep::tests {
namespace {

constexpr std::int64_t samples = 100;
constexpr std::int64_t length = 12;

/// Row i has 1 + i * 5 % 12 tokens, then padding; each third target of those does not count either.
struct Sequences {
  std::vector<std::int64_t> tokens = std::vector<std::int64_t>(samples * length, padding);
  std::vector<std::int64_t> targets = std::vector<std::int64_t>(samples * length, ignored);
  std::vector<std::int64_t> classes = std::vector<std::int64_t>(samples);
};

Sequences make_sequences() {
  Sequences made;
  const Philox random(1, 2);
  for (std::int64_t row = 0; row < samples; ++row) {
    for (std::int64_t at = 0; at < 1 + row * 5 % length; ++at) {
      const auto i = static_cast<std::size_t>(row * length + at);
      made.tokens[i] = random.below(vocabulary, i);
      if (at % 3 != 2) made.targets[i] = (made.tokens[i] * 5 + 1) % vocabulary;
    }
    made.classes[static_cast<std::size_t>(row)] = made.tokens[static_cast<std::size_t>(row * length)] % 6;
  }
  return made;
}

/// Each token is its own class.
std::vector<std::int64_t> tokens_as_classes(std::vector<std::int64_t> tokens) {
  std::ranges::replace(tokens, padding, ignored);
  return tokens;
}

}  // namespace

TEST_CASE("ranks with unequal numbers of targets learn what one learns, in micro-batches too") {
  const TemporaryFolder folder;
  const Sequences made = make_sequences();
  const auto file = file_of(
      folder, "data.safetensors",
      {tensor("inputs", {samples, length}, made.tokens), tensor("targets", {samples, length}, made.targets)});
  // 96 = 4 x 24 samples for any number of ranks; the last step of 100 has padding on 3 ranks.
  const Words options = of_tokens + data_in(file) +
                        Words{"--model=tagger", "--optimizer=sgd",   "--lr=0.5",      "--momentum=0.9",
                              "--epochs=3",     "--global-batch=24", "--eval-every=3"};
  const auto one = train(1, options, folder / "1");
  CHECK(one["steps"] == 15);
  CHECK(one["samples"] == 300);
  const std::vector<double> losses = losses_of(folder / "1");
  REQUIRE(losses.size() == 15);
  CHECK(losses.back() < losses.front());
  for (const int ranks : {1, 2, 4}) {
    for (const int parts : {1, 3}) {
      if (ranks * parts == 1) continue;
      const auto run = folder / (std::to_string(ranks) + "x" + std::to_string(parts));
      const auto summary = train(ranks, options + Words{"--accumulate-steps=" + std::to_string(parts)}, run);
      CHECK(summary["steps"] == 15);
      CHECK(summary["samples"] == 300);
      const std::vector<double> others = losses_of(run);
      REQUIRE(others.size() == losses.size());
      // Sums of the same terms in another order.
      for (std::size_t step = 0; step < losses.size(); ++step)
        CHECK(others[step] == Approx(losses[step]).epsilon(2e-5));
      CHECK(largest_difference(folder / "1", run) < 2e-5);
      CHECK(summary["eval"]["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-5));
      CHECK(summary["eval"]["accuracy"] == one["eval"]["accuracy"]);
    }
  }
}

TEST_CASE("the loss of a step is the mean over its targets, however many each rank and micro-batch has") {
  const TemporaryFolder folder;
  const Sequences made = make_sequences();
  const auto file = file_of(
      folder, "data.safetensors",
      {tensor("inputs", {samples, length}, made.tokens), tensor("targets", {samples, length}, made.targets)});
  const Words options =
      of_tokens + data_in(file) + Words{"--model=tagger",     "--optimizer=sgd", "--lr=0",    "--max-steps=3",
                                        "--global-batch=100", "--eval-every=1",  "--epochs=3"};
  for (const int parts : {1, 5}) {
    const auto run = folder / std::to_string(parts);
    const auto summary = train(2, options + Words{"--accumulate-steps=" + std::to_string(parts)}, run);
    for (const double loss : losses_of(run))
      CHECK(loss == Approx(summary["eval"]["loss"].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("a step in which no target counts has a loss of 0 and changes nothing") {
  const TemporaryFolder folder;
  Sequences made = make_sequences();
  // The second of the steps of 8 samples.
  std::fill(made.targets.begin() + 8 * length, made.targets.begin() + 16 * length, ignored);
  const auto file = file_of(
      folder, "data.safetensors",
      {tensor("inputs", {samples, length}, made.tokens), tensor("targets", {samples, length}, made.targets)});
  const Words options =
      of_tokens + data_in(file) + Words{"--model=tagger",   "--optimizer=sgd", "--lr=0.5",
                                        "--global-batch=8", "--no-shuffle",    "--eval-every=0"};
  for (const int ranks : {1, 2}) {
    const auto run = [&](const char* name) { return folder / (name + std::to_string(ranks)); };
    const auto before = train(ranks, options + Words{"--max-steps=1"}, run("one"));
    const auto after = train(ranks, options + Words{"--max-steps=2"}, run("two"));
    CHECK(after["weights_sha256"] == before["weights_sha256"]);
    CHECK(losses_of(run("two")).at(1) == 0);
    const auto later = train(ranks, options + Words{"--max-steps=3"}, run("three"));
    CHECK(losses_of(run("three")).at(2) > 0);
    CHECK(later["weights_sha256"] != after["weights_sha256"]);
  }
}

TEST_CASE("synthetic tokens: what the model wants, or --seq-len and --vocab-size; something is learned") {
  const TemporaryFolder folder;
  const Words options =
      of_tokens + Words{"--dataset=synthetic", "--samples=512", "--optimizer=adam", "--lr=0.02",
                        "--batch-size=32",     "--epochs=6",    "--eval-every=6"};
  const auto tagged = train(2, options + Words{"--model=tagger"}, folder / "tagger");
  // Three in four follow from the token before; the last of 16 does not.
  CHECK(tagged["eval"]["accuracy"].get<double>() > 0.6);
  const auto bagged = train(2, options + Words{"--model=bag", "--vocab-size=60"}, folder / "bag");
  CHECK(bagged["eval"]["accuracy"].get<double>() > 0.6);
  const Words plan{"plan",        "--plugin=" TOKENS_PLUGIN, "--dataset=synthetic", "--model=tagger",
                   "--seq-len=9", "--vocab-size=31",         "--batch-size=4"};
  CHECK_THAT(output_of(1, plan), contains("4x9x31"));
  expect(refusal({"--model=mlp", "--dataset=synthetic", "--seq-len=9"}), 2, "model mlp takes no tokens");
  expect(refusal(of_tokens + Words{"--dataset=synthetic", "--model=tagger", "--image-shape=3x4"}), 2,
         "give --seq-len");
}

TEST_CASE("eval and predict of tokens: the last token that is no padding, and all logits in a file") {
  const TemporaryFolder folder;
  const Sequences made = make_sequences();
  const auto inputs = tensor("inputs", {samples, length}, made.tokens);
  const auto file =
      file_of(folder, "data.safetensors", {inputs, tensor("targets", {samples, length}, made.targets)});
  const auto unseen = file_of(folder, "unseen.safetensors", {inputs});
  const auto run = (folder / "run").string();
  const auto trained =
      train(2, of_tokens + data_in(file) + Words{"--model=tagger", "--epochs=2", "--eval-every=1"}, run);
  const auto scores = lines_of(output_of(2, {"eval", run}));
  CHECK(scores.at(0)["accuracy"] == trained["eval"]["accuracy"]);
  const auto logits_file = (folder / "logits.safetensors").string();
  const auto lines = lines_of(output_of(2, {"predict", run, "--data-dir", unseen}));
  output_of(2, {"predict", run, "--data-dir", unseen, "--output", logits_file});
  const SafetensorsFile logits(logits_file);
  const auto* all = logits.find("logits");
  REQUIRE(all != nullptr);
  REQUIRE(all->shape == Shape{samples, length, vocabulary});
  REQUIRE(lines.size() == samples);
  for (std::int64_t row = 0; row < samples; ++row) {
    std::array<float, vocabulary> last{};
    const std::int64_t at = row * length + row * 5 % length;
    std::memcpy(last.data(), all->bytes.data() + static_cast<std::size_t>(at) * sizeof last, sizeof last);
    CHECK(lines[static_cast<std::size_t>(row)]["class"] == std::ranges::max_element(last) - last.begin());
  }

  // The weights tell the vocabulary, where samples have fewer tokens; more are refused.
  std::vector<std::int64_t> few(length, 3);
  const auto small = file_of(folder, "small.safetensors", {tensor("inputs", {1, length}, few)});
  CHECK(lines_of(output_of(1, {"predict", run, "--data-dir", small})).size() == 1);
  few[4] = 40;
  const auto large = file_of(folder, "large.safetensors", {tensor("inputs", {1, length}, few)});
  expect(refusal({"predict", run, "--data-dir", large}), 3, "it knows 24 tokens, the samples have 41");
}

TEST_CASE(
    "all logits are there to be predicted with a vocabulary so large that training makes them in parts") {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> tokens{8999, 2, 3, 4, 5, padding, 7, 8, 9, 10, 11, 12};
  const auto file =
      file_of(folder, "data.safetensors",
              {tensor("inputs", {2, 6}, tokens), tensor("targets", {2, 6}, tokens_as_classes(tokens))});
  const auto run = (folder / "run").string();
  train(1,
        of_tokens + data_in(file) + Words{"--model=tagger", "--max-steps=40", "--lr=0.05", "--eval-every=0"},
        run);
  const auto scores = lines_of(output_of(1, {"eval", run})).at(0);
  CHECK(scores["accuracy"] == 1);
  const auto lines = lines_of(output_of(1, {"predict", run, "--data-dir", file}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["class"] == 5);
  CHECK(lines[1]["class"] == 12);
  const auto logits_file = (folder / "logits.safetensors").string();
  output_of(1, {"predict", run, "--data-dir", file, "--output", logits_file});
  CHECK(SafetensorsFile(logits_file).find("logits")->shape == Shape{2, 6, 9000});
}

TEST_CASE("a run on tokens that goes on after a stop ends with the same weights") {
  const TemporaryFolder folder;
  const Sequences made = make_sequences();
  const auto file = file_of(
      folder, "data.safetensors",
      {tensor("inputs", {samples, length}, made.tokens), tensor("targets", {samples, length}, made.targets)});
  const Words options = of_tokens + data_in(file) +
                        Words{"--model=tagger", "--batch-size=4", "--accumulate-steps=3", "--eval-every=1",
                              "--checkpoint-every=3"};
  const auto whole = train(2, options + Words{"--max-steps=13"}, folder / "whole");
  train(2, options + Words{"--max-steps=7"}, folder / "parts");
  const auto parts = train(2, options + Words{"--max-steps=13", "--resume=auto"}, folder / "parts");
  CHECK(parts["weights_sha256"] == whole["weights_sha256"]);
}

TEST_CASE("tensors of source and target are one row; what cannot be used is named") {
  const TemporaryFolder folder;
  const Sequences made = make_sequences();
  const std::vector<std::int64_t> sources(samples * 3, 2);
  const auto src = tensor("src", {samples, 3}, sources);
  const auto tgt = tensor("tgt", {samples, length}, made.tokens);
  const auto targets = tensor("targets", {samples, length}, made.targets);
  const auto pairs = file_of(folder, "pairs.safetensors", {src, tgt, targets});
  const auto single =
      file_of(folder, "single.safetensors", {tensor("inputs", {samples, length}, made.tokens), targets});
  const Words options = of_tokens + Words{"--model=tagger", "--max-steps=5", "--batch-size=8"};
  // The tagger reads the target alone.
  CHECK(train(1, options + data_in(pairs), folder / "pairs")["weights_sha256"] ==
        train(1, options + data_in(single), folder / "single")["weights_sha256"]);

  const Words more_tokens = options + Words{"--model-args=vocab_size=40"};
  train(1, more_tokens + data_in(single), folder / "more");
  const SafetensorsFile weights((folder / "more/model.safetensors"));
  CHECK(weights.find("embedding.weight")->shape == Shape{40, 12});

  expect(refusal(options + Words{"--model-args=vocab_size=20"} + data_in(single)), 3, "no token, which are");
  Sequences broken = make_sequences();
  broken.targets[5 * length + 1] = -7;
  const auto bad = [&](const char* name, const std::vector<std::int64_t>& tokens,
                       const std::vector<std::int64_t>& classes) {
    return refusal(options + data_in(file_of(folder, name,
                                             {tensor("inputs", {samples, length}, tokens),
                                              tensor("targets", {samples, length}, classes)})));
  };
  expect(bad("class", broken.tokens, broken.targets), 3, "class: targets[5, 1] is -7, no class");
  broken.tokens[2 * length + 1] = -2;
  expect(bad("token", broken.tokens, made.targets), 3, "token: inputs[2, 1] is -2: no token");
  broken.tokens[2 * length + 1] = padding;
  expect(bad("behind", broken.tokens, made.targets), 3, "behind: inputs[2, 2] is a token behind padding");
}

}  // namespace lockstep::tests
