#include "tests/support/gradients.h"
#include "tests/support/json_lines.h"

namespace lockstep::tests {
namespace {

const Words small_images{"--dataset=synthetic",
                         "--samples=480",
                         "--image-shape=3x12x12",
                         "--threads=1",
                         "--seed=7",
                         "--log-every=1",
                         "--eval-every=0",
                         "--global-batch=32",
                         "--model=convnet",
                         "--first-bucket-mb=0.01",
                         "--bucket-cap-mb=0.01",
                         "--clip-grad-norm=5",
                         "--checkpoint-every=6"};

TEST_CASE("bf16: the same bits from run to run, and a run goes on to the bit") {
  const std::string gradients = GENERATE("fp32", "bf16");
  const Words options =
      small_images + Words{"--amp=bf16", "--matmul-precision=medium", "--grad-dtype=" + gradients};
  const Words whole = options + Words{"--max-steps=12"};
  const TemporaryFolder folder;
  const auto first = train(2, whole, folder.path() / "a");
  CHECK(first["amp"] == "bf16");
  CHECK(train(2, whole, folder.path() / "b")["weights_sha256"] == first["weights_sha256"]);
  CHECK(train(2, whole + Words{"--no-overlap"}, folder.path() / "c")["weights_sha256"] ==
        first["weights_sha256"]);
  train(2, options + Words{"--max-steps=6"}, folder.path() / "halves");
  const auto halves = train(2, whole + Words{"--resume=auto"}, folder.path() / "halves");
  CHECK(halves["weights_sha256"] == first["weights_sha256"]);
}

TEST_CASE("bf16: two ranks learn what one learns, and what fp32 learns, a little off") {
  const TemporaryFolder folder;
  const Words options = small_images + Words{"--max-steps=12", "--optimizer=sgd", "--lr=0.05"};
  const auto exact = train(1, options, folder.path() / "fp32");
  CHECK(exact["amp"] == "off");
  for (const int ranks : {1, 2}) {
    const auto mixed = train(ranks, options + Words{"--amp"}, folder.path() / std::to_string(ranks));
    CHECK(mixed["weights_sha256"] != exact["weights_sha256"]);
    // A step's rounding of 2^-9 a factor, grown over 12 steps.
    CHECK(mixed["final_loss"].get<double>() == Approx(exact["final_loss"].get<double>()).epsilon(2e-2));
  }
}

TEST_CASE(
    "bf16: micro-batches, recomputed blocks and averages: goes on to the bit, and eval gives its scores") {
  const Words options{"--model=convnet", "--dataset=synthetic",
                      "--samples=320",   "--image-shape=3x12x12",
                      "--threads=1",     "--seed=7",
                      "--batch-size=8",  "--accumulate-steps=2",
                      "--recompute",     "--optimizer=adamw",
                      "--ema=0.9",       "--amp=bf16",
                      "--eval-every=1",  "--eval-samples=64",
                      "--log-every=1",   "--checkpoint-every=5"};
  const TemporaryFolder folder;
  const auto run = folder.path() / "whole";
  const auto whole = train(2, options + Words{"--max-steps=10"}, run);
  train(2, options + Words{"--max-steps=5"}, folder.path() / "halves");
  const auto halves = train(2, options + Words{"--max-steps=10", "--resume=auto"}, folder.path() / "halves");
  CHECK(halves["weights_sha256"] == whole["weights_sha256"]);
  // The run casts its averages for each batch, eval reads copies of the same numbers.
  const auto scores = lines_of(output_of(2, {"eval", run.string(), "--threads=1"}));
  REQUIRE(scores.size() == 1);
  CHECK(scores[0]["accuracy"] == whole["eval"]["accuracy"]);
  CHECK(scores[0]["loss"].get<double>() == Approx(whole["eval"]["loss"].get<double>()).epsilon(1e-6));
}

TEST_CASE("--grad-dtype bf16: micro-batches give the large batch's gradients, rounded once") {
  const TemporaryFolder folder;
  const auto first_gradients = [&](int ranks, const std::string& name, const Words& more) {
    const std::filesystem::path file = folder / (name + ".safetensors");
    train(
        ranks,
        Words{"--model=simplecnn", "--dataset=synthetic", "--image-shape=3x12x12", "--threads=1", "--seed=7",
              "--eval-every=0", "--global-batch=64", "--max-steps=1", "--dump-gradients", file.string()} +
            more,
        folder / name);
    return joined(gradients_in(file));
  };
  const std::vector<float> exact = first_gradients(1, "exact", {});
  const Words rounded{"--grad-dtype=bf16", "--accumulate-steps=16"};
  // Rounding to bf16 is off by 2^-8 / sqrt(6) = 0.0016 in the root mean square; two ranks round theirs, and
  // then the sum. Roundings of each of 16 sums would be off by 0.003 and more.
  CHECK(distance(first_gradients(1, "1x16", rounded), exact) < 0x1p-9);
  CHECK(distance(first_gradients(2, "2x16", rounded), exact) < 0x1p-8);
}

TEST_CASE("mixed precision is a part of what a checkpoint was made with") {
  const TemporaryFolder folder;
  train(1, small_images + Words{"--max-steps=6", "--amp"}, folder.path() / "run");
  Program other(trainer_words(1, small_images + Words{"--max-steps=12", "--resume=auto", "--run-dir",
                                                      (folder.path() / "run").string()}));
  CHECK(other.wait_for_end() == 2);
  CHECK(other.output().find("--amp bf16 (now not given)") != std::string::npos);
}

TEST_CASE("fp16 on a CPU is refused with what to type") {
  Program trainer(Words{TRAINER_PROGRAM} + small_images + Words{"--device=cpu", "--amp=fp16"});
  CHECK(trainer.wait_for_end() == 2);
  CHECK(trainer.output().find("--amp fp16 needs a GPU: give --amp bf16 on a CPU") != std::string::npos);
}

TEST_CASE("a processor without arithmetic on bf16 computes in fp32 between the roundings, and says so") {
  const TemporaryFolder folder;
  const Words options = small_images + Words{"--max-steps=4", "--amp", "--optimizer=sgd"};
  const auto native = train(1, options, folder.path() / "native");
  // oneDNN's word for it, in versions 2 and 3.
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  Program trainer(trainer_words(1, options + Words{"--run-dir", (folder.path() / "avx2").string()}));
  const int end = trainer.wait_for_end();
  unsetenv("ONEDNN_MAX_CPU_ISA");
  REQUIRE(end == 0);
  CHECK(trainer.output().find("no arithmetic on bf16") != std::string::npos);
  const auto widened = nlohmann::json::parse(contents(folder.path() / "avx2" / "summary.json"));
  CHECK(widened["final_loss"].get<double>() == Approx(native["final_loss"].get<double>()).epsilon(1e-2));
}

}  // namespace
}  // namespace lockstep::tests
