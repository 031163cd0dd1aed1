// Options that a command does not read are refused, and what several texts of one prompt are.
#include <set>

#include "tests/support/json_lines.h"
#include "tests/support/refusal.h"

namespace lockstep::tests {
namespace {

/// A run of a small gpt2 on a text in `folder`.
std::string trained(const TemporaryFolder& folder) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the cat sat on the mat, and the dog ran after it.\n";
  write_file(folder / "text.txt", text);
  train(1,
        {"--model=gpt2", "--model-args=n_layer=1,n_head=2,n_embd=32,block_size=24,dropout=0",
         "--dataset=text", "--data-dir=" + (folder / "text.txt").string(), "--max-steps=20", "--batch-size=8",
         "--lr=3e-3", "--eval-every=0"},
        folder / "run");
  return (folder / "run").string();
}

TEST_CASE("eval and predict refuse what they would pass over, from the command line alone") {
  const TemporaryFolder folder;
  const std::string run = trained(folder);
  expect(refusal({"eval", run, "--lr=3"}), 2, "--lr is not read by trainer eval, only by trainer train and");
  expect(refusal({"eval", run, "--samples=3"}), 2, "--samples is not read by --dataset text");
  expect(refusal({"predict", run, "--image-shape=3x3x3"}), 2, "--image-shape is not read by --dataset text");
  expect(refusal({"predict", run, "--prompt=t", "--image-shape=3x3x3"}), 2,
         "--image-shape is not read by trainer predict --prompt");
  expect(refusal({"models", "--lr=3"}), 2, "--lr is not read by trainer models and datasets");
  write_file(folder / "own.ini", "lr = 3\nsamples = 3\neval-samples = 4\n");
  const auto of_file = lines_of(output_of(1, {"eval", run, "--config", (folder / "own.ini").string()}));
  CHECK(of_file.at(0)["samples"] == 4);
}

TEST_CASE("predict --num-samples writes so many texts of each prompt, each by random numbers of its own") {
  const TemporaryFolder folder;
  const std::string run = trained(folder);
  const Words asked{"predict", run, "--prompt=the ", "--prompt=m", "--num_samples=3", "--max-new-tokens=30"};
  const auto texts = lines_of(output_of(1, asked));
  REQUIRE(texts.size() == 6);
  std::set<std::string> different;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(texts[i]["prompt"] == (i < 3 ? "the " : "m"));
    different.insert(texts[i]["text"].get<std::string>());
  }
  CHECK(different.size() == texts.size());
  CHECK(lines_of(output_of(2, asked + Words{"--batch-size=2"})) == texts);
  CHECK(lines_of(output_of(1, {"predict", run, "--prompt=the ", "--max-new-tokens=30"})).at(0) == texts[0]);
}

TEST_CASE("a model of tokens on pictures is told which data set was meant, before any file is looked for") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "the cat sat on the mat.\n");
  expect(refusal({"--model=gpt2", "--data-dir=" + (folder / "a.txt").string()}), 2,
         "model gpt2 takes tokens, data set fashion-mnist has pictures: give --dataset text");
  expect(refusal({"--model=transformer"}), 2, "give --dataset text, tokens, labelled-text, tensors");
}

TEST_CASE("the file of a secret is read on one node, too") {
  const TemporaryFolder folder;
  const Words words{"--model=mlp", "--dataset=synthetic", "--max-steps=1",
                    "--run-dir=" + (folder / "run").string()};
  expect(refusal(words + Words{"--token-file=/nowhere/secret"}), 2,
         "--token-file /nowhere/secret: there is no such file");
}

TEST_CASE("a command's errors show its usage as --help does; a command comes before its options") {
  const std::string usage = "trainer sampler --samples N [--ranks R] [--rank r]";
  expect(refusal({"sampler", "--ranks=2"}), 2, usage);
  CHECK_THAT(output_of(1, {"--help"}), contains(usage));
  expect(refusal({"--lr=0.1", "devices"}), 2,
         "'devices' belongs to no option: options begin with --, and a "
         "command comes first");
}

}  // namespace
}  // namespace lockstep::tests
