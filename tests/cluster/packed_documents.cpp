// --windows packed: documents behind each other in a window are learned from as if each were alone.
#include <cmath>

#include "tests/cluster/sequences.h"
#include "tests/support/largest_difference.h"
#include "tests/support/refusal.h"

namespace lockstep::tests {
namespace {

constexpr std::uint16_t boundary = 0;
constexpr std::uint32_t last_token = vocabulary - 1;

/// Documents of 2 to 39 tokens behind a boundary each; a token mostly tells the next.
std::string documents(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> tokens;
  const Philox random(seed, 0);
  std::uint64_t number = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(boundary);
    const std::uint32_t length = 1 + random.below(38, number++);
    std::uint32_t token = 1 + random.below(last_token, number++);
    for (std::uint32_t at = 0; at < length; ++at) {
      tokens.push_back(static_cast<std::uint16_t>(token));
      token = random.below(4, number++) == 0 ? 1 + random.below(last_token, number++)
                                             : 1 + token * 5 % last_token;
    }
  }
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::uint16_t)};
}

struct Files : TemporaryFolder {
  Files() {
    write_file(*this / "train.bin", documents(120, 1));
    write_file(*this / "val.bin", documents(30, 2));
  }
  Words data() const { return {"--dataset=tokens", "--data-dir=" + (*this / "train.bin").string()}; }
  /// A small gpt2 of windows that hold the longest document.
  Words options() const {
    return data() +
           Words{"--model=gpt2",  "--model-args=n_layer=2,n_head=2,n_embd=32,block_size=48,dropout=0",
                 "--threads=1",   "--seed=7",
                 "--log-every=1", "--lr=3e-3"};
  }
};

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const auto* const tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(tensor->bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

}  // namespace

TEST_CASE("loss and gradients of packed documents are those of each document in a window of its own") {
  const Files files;
  const auto gradients_of = [&](const std::string& windows) {
    const auto file = files / (windows + ".safetensors");
    train(1,
          files.options() + Words{"--windows=" + windows + "=0", "--batch-size=256", "--max-steps=1",
                                  "--eval-every=0", "--dump-gradients=" + file.string()},
          files / windows);
    return file;
  };
  const SafetensorsFile packed(gradients_of("packed"));
  const SafetensorsFile alone(gradients_of("documents"));
  REQUIRE(packed.tensors().size() == alone.tensors().size());
  CHECK(packed.tensors().size() > 20);
  for (const auto& tensor : alone.tensors()) {
    const std::vector<float> expected = floats_of(alone, tensor.name);
    const std::vector<float> got = floats_of(packed, tensor.name);
    REQUIRE(got.size() == expected.size());
    float greatest = 0;
    double distance = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      greatest = std::max(greatest, std::abs(expected[i]));
      distance = std::max(distance, error_between(got[i], expected[i]));
    }
    INFO(tensor.name);
    CHECK(distance <= 2e-5 * static_cast<double>(greatest));  // sums of the same terms in another order
  }
}

TEST_CASE("packed documents: any number of ranks and micro-batches learns the same, and scores it") {
  const Files files;
  const Words options =
      files.options() + Words{"--windows=packed=0", "--global-batch=8", "--epochs=2", "--eval-every=2"};
  Program shown(trainer_words(1, options + Words{"--run-dir", (files / "1").string()}));
  const int code = shown.wait_for_end();
  INFO(shown.output());
  REQUIRE(code == 0);
  CHECK_THAT(shown.output(), contains("packed: 120 documents in "));
  const auto one = nlohmann::json::parse(contents(files / "1/summary.json"));
  const std::vector<double> losses = losses_of(files / "1");
  CHECK(losses.back() < 0.9 * losses.front());
  const auto same = [&](int ranks, const Words& more, const char* name) {
    const auto summary = train(ranks, options + more, files / name);
    const std::vector<double> others = losses_of(files / name);
    REQUIRE(others.size() == losses.size());
    // Adam's first steps divide gradients by themselves, rounding included.
    for (std::size_t step = 0; step < losses.size(); ++step)
      CHECK(others[step] == Approx(losses[step]).epsilon(1e-3));
    CHECK(summary["eval"]["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-3));
    return summary;
  };
  same(2, {}, "2");
  same(4, {"--num-workers=3"}, "4");
  same(2, {"--accumulate-steps=2"}, "parts");
  CHECK(same(1, {"--recompute"}, "again")["weights_sha256"] == one["weights_sha256"]);
  const auto scores = lines_of(output_of(2, {"eval", (files / "1").string()}));
  CHECK(scores.at(0)["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-5));
  CHECK(lines_of(output_of(1, {"predict", (files / "1").string()})).size() > 10);
  const auto half = train(1, options + Words{"--amp"}, files / "half");
  CHECK(half["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(5e-2));
}

TEST_CASE(
    "packed documents: a run that goes on in mid-epoch ends with the weights of one that was not stopped") {
  const Files files;
  const Words options =
      files.options() + Words{"--windows=packed=0", "--global-batch=8",     "--eval-every=0",
                              "--epochs=3",         "--checkpoint-every=2", "--max-steps"};
  const auto whole = train(2, options + Words{"21"}, files / "whole");
  train(2, options + Words{"8"}, files / "parts");
  const auto later = train(2, options + Words{"21", "--resume=auto"}, files / "parts");
  CHECK(later["weights_sha256"] == whole["weights_sha256"]);
}

TEST_CASE("packed documents: rows with room behind the last one are no anomaly") {
  const Files files;
  const Words options = files.options() + Words{"--windows=packed=0", "--batch-size=8"};
  const auto plain = train(1, options, files / "plain");
  const auto looking = train(1, options + Words{"--detect-anomaly"}, files / "looking");
  CHECK(looking["weights_sha256"] == plain["weights_sha256"]);
  CHECK(looking["eval"] == plain["eval"]);
}

TEST_CASE("models that would see from one document into the next are refused with 2") {
  const Files files;
  for (const std::string model : {"rnn", "lstm", "transformer", "tagger"}) {
    const auto refused = refusal(files.data() + Words{"--plugin=" TOKENS_PLUGIN, "--model=" + model,
                                                      "--windows=packed", "--seq-len=16"});
    INFO(refused.said);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.said, contains("--windows packed: model " + model +
                                      " would see from one document into the next; take gpt2"));
  }
}

}  // namespace lockstep::tests
