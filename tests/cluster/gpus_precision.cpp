#include "tests/cluster/gpus.h"
#include "tests/support/text.h"

namespace lockstep::tests {
namespace {

TEST_CASE("TF32 products: a little off, on all ranks alike, and part of what a checkpoint was made with") {
  give_gpus(2);
  const Words options = small_images + sgd +
                        Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--checkpoint-every=10"};
  const TemporaryFolder folder;
  const auto exact = train(2, options + Words{"--max-steps=10"}, folder.path() / "highest");
  const Words high{"--matmul-precision=high"};
  const auto rounded = train(2, options + high + Words{"--max-steps=10"}, folder.path() / "high");
  CHECK(exact["weights_sha256"] != rounded["weights_sha256"]);
  check_same_losses(folder.path() / "high", folder.path() / "highest", 1e-2);
  Program other(trainer_words(
      2, options + Words{"--max-steps=12", "--resume=auto", "--run-dir", (folder.path() / "high").string()}));
  CHECK(other.wait_for_end() == 2);
  CHECK(other.output().find("--matmul-precision high (now highest)") != std::string::npos);
}

TEST_CASE("convolutions on a GPU are TF32 unless the run says otherwise, as PyTorch's are") {
  give_gpus(1);
  const Words options =
      images_in_buckets + sgd + Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--max-steps=4"};
  const TemporaryFolder folder;
  const auto by_default = train(1, options, folder.path() / "default");
  const auto tf32 = train(1, options + Words{"--conv-precision=tf32"}, folder.path() / "tf32");
  const auto ieee = train(1, options + Words{"--conv-precision=ieee"}, folder.path() / "ieee");
  CHECK(by_default["conv_precision"] == "tf32");
  CHECK(by_default["weights_sha256"] == tf32["weights_sha256"]);
  CHECK(ieee["conv_precision"] == "ieee");
  CHECK(ieee["weights_sha256"] != tf32["weights_sha256"]);
  check_same_losses(folder.path() / "ieee", folder.path() / "tf32", 1e-2);
  CHECK(contents(folder.path() / "default/config.ini").find("conv-precision = tf32") != std::string::npos);
}

TEST_CASE("what tensor cores miss is said by the plan and once at the start, if products may be rounded") {
  const std::string precision = GENERATE("highest", "medium");
  CAPTURE(precision);
  give_gpus(2);
  const std::string miss = "conv1: 3 input channels (4 is faster)";  // fc2's ten classes have room
  const Words options =
      images_in_buckets + Words{"--model=convnet",
                                "--batch-size=16",
                                "--device=cuda",
                                "--max-steps=2",
                                "--matmul-precision=" + precision,
                                precision == "highest" ? "--conv-precision=ieee" : "--conv-precision=tf32"};
  const int times = precision == "highest" ? 0 : 1;
  const TemporaryFolder folder;
  Program plan(Words{TRAINER_PROGRAM, "plan"} + options);
  REQUIRE(plan.wait_for_end() == 0);
  CHECK(count_of(plan.output(), miss) == times);
  CHECK(plan.output().find("products at " + precision + " precision") != std::string::npos);
  Program run(trainer_words(2, options + Words{"--run-dir", (folder.path() / "run").string()}));
  REQUIRE(run.wait_for_end() == 0);
  CHECK(count_of(run.output(), miss) == times);
}

TEST_CASE("a run on a GPU tells what memory the device lost: all that was planned, and libraries and code") {
  give_gpus(1);
  const TemporaryFolder folder;
  const auto summary =
      train(1, small_images + Words{"--model=convnet", "--batch-size=16", "--device=cuda", "--max-steps=2"},
            folder.path() / "run");
  // On a world of one plan_bytes counts the gradients twice.
  CHECK(summary["device_bytes_used"].get<double>() > 0.75 * summary["plan_bytes"].get<double>());
}

}  // namespace
}  // namespace lockstep::tests
