// Widths that tensor cores would read in parts have room in memory on GPUs; files and results know nothing of
// it.
#include <cmath>

#include "kernels/base/safetensors.h"
#include "tests/cluster/gpus.h"

namespace lockstep::tests {
namespace {

/// 20 hidden features and 10 classes, of pictures of 45 numbers.
const Words odd_perceptron{"--model=mlp",    "--model-args=hidden=20", "--dataset=synthetic",
                           "--samples=96",   "--image-shape=3x3x5",    "--threads=1",
                           "--seed=7",       "--log-every=1",          "--batch-size=8",
                           "--eval-every=0", "--optimizer=adamw",      "--weight-decay=0.1"};
const Words odd_vocabulary{"--model=lstm",
                           "--model-args=vocab_size=65,embedding=16,hidden=24",
                           "--dataset=synthetic",
                           "--samples=96",
                           "--seq-len=12",
                           "--threads=1",
                           "--seed=7",
                           "--log-every=1",
                           "--batch-size=8",
                           "--eval-every=0",
                           "--optimizer=adamw"};
/// Whose classifier is the table of its embedding.
const Words tied_vocabulary{
    "--model=gpt2",        "--model-args=n_layer=1,n_head=2,n_embd=16,block_size=12,vocab_size=65,dropout=0",
    "--dataset=synthetic", "--samples=96",
    "--threads=1",         "--seed=7",
    "--log-every=1",       "--batch-size=8",
    "--eval-every=0",      "--optimizer=adamw"};
const Words six_steps{"--max-steps=6"};

Words on(const std::string& device) {
  return {"--device=" + device};
}

/// Names, types, shapes and bytes of the tensors of a file.
std::vector<std::string> shapes_in(const std::filesystem::path& file) {
  std::vector<std::string> shapes;
  const SafetensorsFile whole(file);
  for (const SafetensorsFile::Tensor& tensor : whole.tensors())
    shapes.push_back(tensor.name + " " + std::string(name_of(tensor.dtype)) + " " + tensor.shape.str());
  return shapes;
}

std::string plan_of(const Words& options) {
  Program plan(Words{TRAINER_PROGRAM, "plan"} + options);
  REQUIRE(plan.wait_for_end() == 0);
  return plan.output();
}

std::size_t reorders_in(const std::string& plan) {
  std::size_t count = 0;
  for (auto at = plan.find("reorder"); at != std::string::npos; at = plan.find("reorder", at + 1)) ++count;
  return count;
}

TEST_CASE("odd widths have room on GPUs in half types and TF32, without a copy, and the plan is content") {
  give_gpus(1);
  const Words options = odd_perceptron + on("cuda");
  for (const Words& narrow : {Words{"--amp=bf16"}, Words{"--amp=fp16"}, Words{"--matmul-precision=high"}}) {
    CAPTURE(narrow);
    const std::string text = plan_of(options + narrow);
    CHECK(text.find("10x20 in 16x24") != std::string::npos);
    CHECK(text.find("reorder") == std::string::npos);
    CHECK(text.find("output features") == std::string::npos);
    // Pictures that are not cast lie as they came.
    const bool casts = narrow.front().starts_with("--amp");
    CHECK((text.find("1: 45 input features (48 is faster)") == std::string::npos) == casts);
    CHECK((text.find("20x45 in 24x48") != std::string::npos) == casts);
  }
  CHECK(plan_of(options).find(" in 16x24") == std::string::npos);
  const std::string vocabulary = plan_of(odd_vocabulary + on("cuda") + Words{"--amp=bf16"});
  CHECK(vocabulary.find("65x24 in 72x24") != std::string::npos);
  // Tokens are turned steps first, and both biases of a layer have a gradient of their own, with and without
  // room.
  CHECK(reorders_in(vocabulary) == reorders_in(plan_of(odd_vocabulary + on("cuda"))));
  const std::string tied = plan_of(tied_vocabulary + on("cuda") + Words{"--amp=bf16"});
  CHECK(tied.find("65x16 in 72x16") != std::string::npos);
  CHECK(tied.find("reorder") == std::string::npos);
}

TEST_CASE("odd widths on GPUs train as on CPUs, and files have the widths that there are") {
  const Words& model = GENERATE_REF(odd_perceptron, odd_vocabulary, tied_vocabulary);
  const Words more = GENERATE(Words{"--ema=0.9", "--clip-grad-norm=1"}, Words{"--accumulate-steps=2"});
  CAPTURE(model.front(), more);
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options = model + more + six_steps + Words{"--checkpoint-every=6"};
  train(2, options + Words{"--amp=bf16"} + on("cpu"), folder / "cpu");
  train(2, options + Words{"--amp=bf16"} + on("cuda"), folder / "bf16");
  const auto exact = train(2, options + on("cuda"), folder / "ieee");
  const auto rounded = train(2, options + Words{"--matmul-precision=high"} + on("cuda"), folder / "tf32");
  // A factor of bf16 is off by 2^-9, of TF32 by 2^-11, both at random: a sum of some by less.
  check_same_losses(folder / "bf16", folder / "cpu", 1e-2);
  check_same_losses(folder / "tf32", folder / "ieee", 2e-3);
  CHECK(rounded["parameters"] == exact["parameters"]);
  for (const char* file : {"model.safetensors", "checkpoints/latest/model.safetensors",
                           "checkpoints/latest/optimizer.safetensors"}) {
    const auto wanted = shapes_in(folder / "cpu" / file);
    CHECK(!wanted.empty());
    CHECK(shapes_in(folder / "bf16" / file) == wanted);
    CHECK(shapes_in(folder / "tf32" / file) == wanted);
  }
  const auto walked = train(2, options + Words{"--matmul-precision=high", "--cuda-graph=off"} + on("cuda"),
                            folder / "walked");
  CHECK(walked["weights_sha256"] == rounded["weights_sha256"]);
}

TEST_CASE("a checkpoint of CPUs goes on on GPUs that give its widths room, and back") {
  give_gpus(2);
  const TemporaryFolder folder;
  const Words options =
      odd_perceptron + Words{"--amp=bf16", "--ema=0.9", "--checkpoint-every=2", "--conv-precision=ieee"};
  train(2, options + six_steps + on("cpu"), folder / "cpu");
  for (const auto& [first, then] : {std::pair{"cpu", "cuda"}, std::pair{"cuda", "cpu"}}) {
    CAPTURE(first);
    const auto run = folder / (std::string("from_") + first);
    train(2, options + Words{"--max-steps=2"} + on(first), run);
    const auto before = train(2, options + Words{"--max-steps=2", "--resume=auto"} + on(then), run);
    train(2, options + Words{"--max-steps=4", "--resume=auto"} + on(then), run);
    train(2, options + six_steps + Words{"--resume=auto"} + on(first), run);
    check_same_losses(run, folder / "cpu", 1e-2);  // as above
    // Read into the other device's memory and out of it again, weights are what they were.
    const auto alone =
        train(2, options + Words{"--max-steps=2"} + on(first), folder / (std::string(first) + "2"));
    CHECK(before["weights_sha256"] == alone["weights_sha256"]);
  }
}

TEST_CASE("what a network with odd widths gives is read without room") {
  give_gpus(1);
  const TemporaryFolder folder;
  train(1, odd_perceptron + six_steps + on("cpu"), folder / "run");
  const auto outputs = [&](const std::string& name, const Words& options) {
    const auto file = folder / name;
    Program predict(Words{TRAINER_PROGRAM, "predict", (folder / "run").string(), "--output", file.string()} +
                    options);
    const int code = predict.wait_for_end();
    INFO(predict.output());
    REQUIRE(code == 0);
    const SafetensorsFile tensors(file);
    const auto& logits = tensors.tensors().front();
    const auto* const values = reinterpret_cast<const float*>(logits.bytes.data());
    return std::vector<float>(values, values + logits.bytes.size() / sizeof(float));
  };
  const std::vector<float> wanted = outputs("cpu.safetensors", on("cpu"));
  const std::vector<float> got = outputs("gpu.safetensors", on("cuda") + Words{"--matmul-precision=high"});
  REQUIRE(wanted.size() == 96 * 10);
  REQUIRE(got.size() == wanted.size());
  // Factors of TF32, as above, of logits of about 1.
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-2F);
}

}  // namespace
}  // namespace lockstep::tests
