#include "kernels/base/safetensors.h"
#include "tests/cluster/gpus.h"
#include "tests/support/text.h"

namespace lockstep::tests {
namespace {

/// Four samples whose targets are so far away that d loss / d y, half of one, times a scale has no fp16: of
/// 1000 a scale above 128.
void write_far_targets(const std::filesystem::path& file, float target) {
  const std::vector<float> inputs(40, 0.25F);
  const std::vector<float> targets(4, target);
  const std::vector<SafetensorsFile::Tensor> tensors{
      {.name = "inputs", .dtype = DType::f32, .shape = {4, 10}, .bytes = std::as_bytes(std::span(inputs))},
      {.name = "targets", .dtype = DType::f32, .shape = {4, 1}, .bytes = std::as_bytes(std::span(targets))}};
  write_safetensors(file, tensors);
}

nlohmann::json state_of(const std::filesystem::path& run) {
  return nlohmann::json::parse(contents(run / "checkpoints" / "latest" / "state.json"));
}

TEST_CASE("fp16: a step whose gradients overflow is skipped, and the scale halves until none does") {
  give_gpus(1);
  const TemporaryFolder folder;
  write_far_targets(folder.path() / "far.safetensors", 1000);
  const Words options{
      "--model=linear", "--dataset=tensors",   "--data-dir=" + (folder.path() / "far.safetensors").string(),
      "--batch-size=4", "--device=cuda",       "--eval-every=0",
      "--log-every=1",  "--checkpoint-every=1"};
  const Words fp16{"--amp=fp16"};
  const auto untouched =
      train(1, options + Words{"--max-steps=1", "--optimizer=sgd", "--lr=0"}, folder.path() / "0");
  const auto skipped = train(1, options + fp16 + Words{"--max-steps=1"}, folder.path() / "skipped");
  CHECK(skipped["weights_sha256"] == untouched["weights_sha256"]);
  CHECK(skipped["final_loss"].get<double>() == Approx(1e6).epsilon(0.01));  // told unscaled
  CHECK(state_of(folder.path() / "skipped")["applied_updates"] == 0);
  CHECK(state_of(folder.path() / "skipped")["grad_scaler"]["scale"] == 32768);

  const auto whole = train(1, options + fp16 + Words{"--max-steps=12"}, folder.path() / "whole");
  const auto state = state_of(folder.path() / "whole");
  CHECK(state["applied_updates"] == 3);  // nine halvings from 65536 to 128
  CHECK(state["grad_scaler"]["scale"] == 128);
  CHECK(state["grad_scaler"]["_growth_tracker"] == 3);
  CHECK(whole["applied_updates"] == 3);
  CHECK(whole["grad_scale"] == 128);
  CHECK_THAT(contents(folder.path() / "whole" / "log.jsonl"), contains("\"grad_scale\":65536"));
  const auto looking =
      train(1, options + fp16 + Words{"--max-steps=12", "--detect-anomaly"}, folder.path() / "looking");
  CHECK(looking["weights_sha256"] == whole["weights_sha256"]);
  train(1, options + fp16 + Words{"--max-steps=10"}, folder.path() / "parts");
  const auto parts =
      train(1, options + fp16 + Words{"--max-steps=12", "--resume=auto"}, folder.path() / "parts");
  CHECK(parts["weights_sha256"] == whole["weights_sha256"]);
}

TEST_CASE("fp16: gradients that are not finite at any scale end the run with 6") {
  give_gpus(1);
  const TemporaryFolder folder;
  write_far_targets(folder.path() / "far.safetensors", 1e15F);
  Program run(trainer_words(
      1, {"--model=linear", "--dataset=tensors", "--data-dir=" + (folder.path() / "far.safetensors").string(),
          "--batch-size=4", "--device=cuda", "--eval-every=0", "--amp=fp16", "--max-steps=100", "--run-dir",
          (folder.path() / "run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 6);
  CHECK_THAT(run.output(), contains("the gradients are not finite in fp16 at step 42 "));
}

TEST_CASE("fp16: --detect-anomaly names what is not finite without a scale") {
  give_gpus(1);
  const TemporaryFolder folder;
  write_far_targets(folder.path() / "far.safetensors", 1e30F);
  Program run(trainer_words(
      1, {"--model=linear", "--dataset=tensors", "--data-dir=" + (folder.path() / "far.safetensors").string(),
          "--batch-size=4", "--device=cuda", "--eval-every=0", "--amp=fp16", "--detect-anomaly", "--run-dir",
          (folder.path() / "run").string()}));
  const int code = run.wait_for_end();
  INFO(run.output());
  CHECK(code == 6);
  CHECK_THAT(run.output(), contains("rank 0, step 1, loss mean_squared_error: the first result that is not "
                                    "finite, inf at element 0 of output 0 (forward)"));
}

TEST_CASE("bf16 and fp16 on GPUs: near fp32, the same bits on every run, in graphs and walked") {
  give_gpus(2);
  const std::string amp = GENERATE("bf16", "fp16");
  const Words options =
      small_images + sgd + Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--max-steps=8"};
  const Words mixed{"--amp=" + amp};
  const TemporaryFolder folder;
  train(2, options, folder.path() / "fp32");
  const auto first = train(2, options + mixed + Words{"--cuda-graph=off"}, folder.path() / "walked");
  const auto again = train(2, options + mixed + Words{"--cuda-graph=on"}, folder.path() / "graphs");
  CHECK(first["amp"] == amp);
  CHECK(first["weights_sha256"] == again["weights_sha256"]);
  // A step's rounding of 2^-9 a factor, grown over 8 steps.
  check_same_losses(folder.path() / "walked", folder.path() / "fp32", 2e-2);
}

/// Launches of attention's kernels on tensor cores in two steps, by their code's capability.
int tensor_core_launches(const std::string& code) {
  give_gpus(1);
  const TemporaryFolder folder;
  const Variable compiled("SIMGPU_CODE", code);
  const Variable trace("SIMGPU_TRACE", folder / "trace");
  train(1,
        {"--model=gpt2", "--model-args=n_layer=1,n_head=1,n_embd=16,block_size=12,vocab_size=65,dropout=0",
         "--dataset=synthetic", "--samples=96", "--batch-size=8", "--eval-every=0", "--amp=bf16",
         "--device=cuda", "--max-steps=2"},
        folder.path() / "run");
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().stem() == "trace") return count_of(contents(file.path()), "attention_tensor_cores");
  }
  return -1;
}

TEST_CASE("code of before 8.0 that a driver translates for a newer GPU leaves its tensor cores alone") {
  CHECK(tensor_core_launches("80") > 0);
  CHECK(tensor_core_launches("75") == 0);
}

}  // namespace
}  // namespace lockstep::tests
