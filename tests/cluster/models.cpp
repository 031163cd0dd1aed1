#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

Words words_of(const std::string& line) {
  std::istringstream text(line);
  Words words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

/// The command lines that `trainer models` shows, without the program.
std::vector<Words> example_options() {
  Program models({TRAINER_PROGRAM, "models"});
  REQUIRE(models.wait_for_end() == 0);
  std::vector<Words> examples;
  std::istringstream output(models.output());
  for (std::string line; std::getline(output, line);) {
    const Words words = words_of(line);
    if (words.size() > 2 && words[0] == "trainer") examples.emplace_back(words.begin() + 1, words.end());
  }
  return examples;
}

bool on_simulated_gpus() {
  const char* device = std::getenv("LOCKSTEP_TEST_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

/// For all steps; a GPU in software updates 25 million parameters in 10 s, beside others in 40.
constexpr Seconds limit(200);

bool takes_tokens(const std::string& model) {
  constexpr std::string_view models[] = {"rnn", "lstm", "transformer", "gpt2"};
  return std::ranges::find(models, model) != std::end(models);
}

/// A GPU in software takes hours for the batches that a model's line sizes for a CPU, and minutes to update
/// gpt2's 124 million parameters.
Words shortened(Words options) {
  if (options[1] == "gpt2") options = options + Words{"--model-args=n_layer=2,n_head=2,n_embd=64"};
  const auto batch = std::ranges::find(options, "--batch-size");
  if (batch == options.end()) return options;
  batch[1] = "2";
  if (!takes_tokens(options[1])) return options + Words{"--image-shape=3x64x64"};
  const auto length = std::ranges::find(options, "--seq-len");
  if (length == options.end()) return options + Words{"--seq-len=8"};
  length[1] = "8";
  return options;
}

TEST_CASE("every model trains by its line in `trainer models`, two ranks in 16 GB") {
  if (on_simulated_gpus()) {
    setenv("SIMGPU_DEVICES", "2", 1);
    setenv("SIMGPU_MEMORY_MB", "2048", 1);
  }
  const int steps = on_simulated_gpus() ? 2 : 3;
  const std::vector<Words> examples = example_options();
  CHECK(examples.size() >= 8);
  for (const Words& example : examples) {
    const TemporaryFolder folder;
    INFO(example[1]);
    const Words options =
        on_simulated_gpus() ? shortened(example) + Words{"--device=cuda"} : example + Words{"--device=cpu"};
    const Words few_steps{"--max-steps=" + std::to_string(steps), "--eval-every=0", "--threads=1"};
    const auto summary = train(2, options + few_steps, folder.path() / "run", limit);
    CHECK(summary["steps"] == steps);
    CHECK(summary["peak_memory_bytes"].get<double>() < 8e9);
  }
}

}  // namespace
}  // namespace lockstep::tests
