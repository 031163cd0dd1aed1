#include "kernels/base/safetensors.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

const Words tiny{"--dataset=synthetic", "--samples=64",  "--batch-size=8",
                 "--eval-every=0",      "--max-steps=3", "--progress=none"};

/// What a program that must end with 2 says: one line.
std::string refusal(const Words& words) {
  Program run(words);
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 2);
  CHECK(std::ranges::count(run.output(), '\n') == 1);
  return run.output();
}

TEST_CASE("a number outside its option's range: one line with option, value and range, and 2") {
  const TemporaryFolder folder;
  struct Wrong {
    std::string option;
    std::string value;
  };
  const auto wrong = GENERATE(Wrong{"num-workers", "4294967296"}, Wrong{"threads", "4294967297"},
                              Wrong{"num-classes", "9223372036854775807"}, Wrong{"bucket-cap-mb", "1e300"},
                              Wrong{"global-batch", "9223372036854775807"}, Wrong{"lr", "1e300"});
  CHECK_THAT(refusal(trainer_words(1, tiny + Words{"--model=mlp", "--" + wrong.option, wrong.value,
                                                   "--run-dir", (folder / "run").string()})),
             contains("--" + wrong.option + ": " + wrong.value + " is not in the range "));
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_CASE("sizes whose product no memory holds: 2 before there is any") {
  const TemporaryFolder folder;
  const Words more =
      GENERATE(Words{"--model=mlp", "--image-shape=4294967296x4294967296"},
               Words{"--model=mlp", "--image-shape=65536x65536x65536"},
               Words{"--model=mlp", "--image-shape=1048576x1024", "--batch-size=65536"},
               Words{"--model=mlp", "--model-args=hidden=9223372036854775807"},
               Words{"--model=linear", "--model-args=in=2097152,out=1048576"},
               Words{"--model=mlp", "--num-classes=16777216", "--batch-size=16777216", "--samples=16777216"});
  for (const Words& command : {Words{}, Words{"plan"}}) {
    refusal(Words{TRAINER_PROGRAM} + command + tiny + more + Words{"--run-dir", (folder / "run").string()});
  }
}

TEST_CASE("a time limit longer than any run trains") {
  const TemporaryFolder folder;
  const int ranks = GENERATE(1, 2);
  const auto summary =
      train(ranks, tiny + Words{"--model=mlp", "--timeout=1e10", "--num-workers=1"}, folder / "run");
  CHECK(summary["steps"] == 3);
  CHECK_THAT(refusal(trainer_words(1, tiny + Words{"--model=mlp", "--timeout=inf"})),
             contains("--timeout: 'inf' is not a number"));
}

TEST_CASE("launch's numbers have ranges, too") {
  const Words wrong = GENERATE(Words{"--nproc_per_node", "4294967297"}, Words{"--nnodes", "4294967297"},
                               Words{"--monitor-interval", "1e300"}, Words{"--shutdown-timeout", "1e300"});
  CHECK_THAT(refusal(Words{LAUNCH_PROGRAM} + wrong + Words{"true"}),
             contains(wrong[1] + " is not in the range "));
  Program run(Words{LAUNCH_PROGRAM, "--shutdown-timeout", "1e10", "--monitor-interval", "1e10", "true"});
  CHECK(run.wait_for_end() == 0);
}

TEST_CASE("trainer sampler's numbers have ranges, too") {
  const Words wrong =
      GENERATE(Words{"--samples", "9223372036854775807"}, Words{"--samples", "0"},
               Words{"--samples", "8", "--ranks", "4294967297"}, Words{"--samples", "8", "--epoch", "-1"});
  CHECK_THAT(refusal(Words{TRAINER_PROGRAM, "sampler"} + wrong),
             contains(wrong[wrong.size() - 2] + ": " + wrong.back() + " is not in the range "));
}

TEST_CASE("a word that belongs to no option is refused by commands with options of their own") {
  CHECK_THAT(refusal({TRAINER_PROGRAM, "sampler", "100", "--samples", "5"}),
             contains("'100' belongs to no option; trainer sampler --samples N"));
  CHECK_THAT(
      refusal({TRAINER_PROGRAM, "datasets", "tokenize", "--input", "a.txt", "--output", "a.bin", "b.txt"}),
      contains("'b.txt' belongs to no option; trainer datasets tokenize --input"));
}

TEST_CASE("inputs that the model's first layer cannot take: 2, with layer and both dtypes") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data.safetensors").string();
  const DType dtype = GENERATE(DType::i64, DType::i32, DType::u16, DType::u8, DType::bf16);
  const std::vector<std::byte> inputs(64 * 10 * size_of(dtype));
  const std::vector<float> targets(64);
  write_safetensors(data, std::array{SafetensorsFile::Tensor{"inputs", dtype, {64, 10}, inputs},
                                     SafetensorsFile::Tensor{
                                         "targets", DType::f32, {64, 1}, std::as_bytes(std::span(targets))}});
  CHECK_THAT(refusal(trainer_words(1, {"--model=linear", "--dataset=tensors", "--data-dir", data,
                                       "--max-steps=2", "--run-dir", (folder / "run").string()})),
             contains("layer '' (linear): x is " + std::string(name_of(dtype))));
}

}  // namespace
}  // namespace lockstep::tests
