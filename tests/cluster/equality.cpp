#include "tests/support/largest_difference.h"
#include "tests/support/training.h"

namespace lockstep::tests {
namespace {

/// 500 samples in global batches of 48 leave a last batch of 20, uneven over 3 ranks after the sampler's
/// padding.
const Words small_images{"--dataset=synthetic", "--samples=500", "--image-shape=3x12x12",
                         "--threads=1",         "--seed=7",      "--log-every=1"};

/// Sums of the same terms in another order differ by 1e-6 of themselves at most, in each of 28 steps: so may
/// a loss.
constexpr double loss_rounding = 28 * 1e-6;
/// A step moves a weight by the learning rate times a gradient below 1, and momentum repeats that ten times.
constexpr double weight_rounding = loss_rounding * 0.05 * 10;

TEST_CASE("N ranks learn what one rank learns on the same global batches") {
  const std::string model = GENERATE("mlp", "simplecnn", "convnet");
  // 480 samples: no padding for 1, 2, 3 or 4 ranks; 480 = 13 x 36 + 12, so the last batch of an epoch is
  // smaller.
  const Words options = Words{"--model=" + model, "--samples=480", "--optimizer=sgd",   "--lr=0.05",
                              "--momentum=0.9",   "--epochs=2",    "--global-batch=36", "--eval-every=1"};
  const TemporaryFolder folder;
  const auto one = train(1, small_images + options, folder.path() / "1");
  CHECK(one["steps"] == 28);
  CHECK(one["samples"] == 960);
  for (const int ranks : {2, 3, 4}) {
    const auto run_dir = folder.path() / std::to_string(ranks);
    const auto summary = train(ranks, small_images + options, run_dir);
    CHECK(summary["steps"] == one["steps"]);
    CHECK(summary["samples"] == one["samples"]);
    CHECK(summary["final_loss"].get<double>() ==
          Approx(one["final_loss"].get<double>()).epsilon(loss_rounding));
    CHECK(summary["eval"]["loss"].get<double>() ==
          Approx(one["eval"]["loss"].get<double>()).epsilon(loss_rounding));
    CHECK(largest_difference(folder.path() / "1", run_dir) < weight_rounding);
  }
}

TEST_CASE(
    "uneven data: every rank takes as many steps, the sampler pads, and evaluation counts each sample once") {
  const TemporaryFolder folder;
  const Words options = small_images + Words{"--model=mlp", "--epochs=1", "--eval-every=1"};
  const auto summary = train(3, options + Words{"--batch-size=16"}, folder.path() / "run");
  CHECK(summary["steps"] == 11);     // ceil(ceil(500 / 3) / 16)
  CHECK(summary["samples"] == 501);  // 3 x 167
  const auto alone = train(
      1,
      options + Words{"--batch-size=48", "--init-from",
                      (folder.path() / "run" / "model.safetensors").string(), "--optimizer=sgd", "--lr=0"},
      folder.path() / "eval");
  CHECK(summary["eval"]["samples"].get<int>() > 0);
  CHECK(alone["eval"]["samples"] == summary["eval"]["samples"]);
  CHECK(alone["eval"]["accuracy"] == summary["eval"]["accuracy"]);
  CHECK(alone["eval"]["top5"] == summary["eval"]["top5"]);
  CHECK(alone["eval"]["top5"] >= alone["eval"]["accuracy"]);
  CHECK(alone["eval"]["loss"].get<double>() == Approx(summary["eval"]["loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("the same bits from run to run, and with and without overlap") {
  const int ranks = GENERATE(1, 2, 4);
  const Words options = small_images + Words{"--model=convnet", "--batch-size=16", "--max-steps=25",
                                             "--first-bucket-mb=0.01", "--bucket-cap-mb=0.01"};
  const TemporaryFolder folder;
  const auto first = train(ranks, options, folder.path() / "a");
  const auto second = train(ranks, options, folder.path() / "b");
  const auto serial = train(ranks, options + Words{"--no-overlap"}, folder.path() / "c");
  CHECK(first["weights_sha256"] == second["weights_sha256"]);
  CHECK(first["weights_sha256"] == serial["weights_sha256"]);
  CHECK(first["final_loss"] == serial["final_loss"]);
}

TEST_CASE(
    "clipped gradients: ranks learn what one learns, overlap changes no bit, and a run goes on to the bit") {
  const Words options =
      small_images +
      Words{"--model=simplecnn",      "--samples=480",        "--optimizer=sgd",      "--lr=0.05",
            "--momentum=0.9",         "--global-batch=32",    "--clip-grad-norm=0.5", "--eval-every=0",
            "--first-bucket-mb=0.01", "--bucket-cap-mb=0.01", "--checkpoint-every=6"};
  const Words whole = options + Words{"--max-steps=12"};
  const TemporaryFolder folder;
  const auto one = train(1, whole, folder.path() / "1");
  const auto two = train(2, whole, folder.path() / "2");
  CHECK(two["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(1e-4));
  CHECK(largest_difference(folder.path() / "1", folder.path() / "2") < 1e-4);
  const auto serial = train(2, whole + Words{"--no-overlap"}, folder.path() / "serial");
  CHECK(two["weights_sha256"] == serial["weights_sha256"]);
  train(2, options + Words{"--max-steps=6"}, folder.path() / "halves");
  const auto halves = train(2, whole + Words{"--resume=auto"}, folder.path() / "halves");
  CHECK(two["weights_sha256"] == halves["weights_sha256"]);

  // The norm in the log is that before clipping, and there is one only then.
  const auto log = contents(folder.path() / "2" / "log.jsonl");
  const auto first = nlohmann::json::parse(log.substr(0, log.find('\n')));
  CHECK(first.at("grad_norm").get<double>() > 0.5);
  const auto free = train(2, options + Words{"--max-steps=12", "--clip-grad-norm=0"}, folder.path() / "free");
  CHECK(free["weights_sha256"] != two["weights_sha256"]);
  CHECK(contents(folder.path() / "free" / "log.jsonl").find("grad_norm") == std::string::npos);
}

TEST_CASE("ranks that update a shard each have the bits of ranks that update all, also in checkpoints") {
  const Words variant =
      GENERATE(Words{"--optimizer=adamw", "--weight-decay=0.1"}, Words{"--optimizer=sgd", "--momentum=0.9"},
               Words{"--optimizer=adam", "--amp=bf16", "--ema=0.9"},
               Words{"--optimizer=adamw", "--weight-decay-for=matrices", "--accumulate-steps=2"});
  const int ranks = GENERATE(2, 3);
  CAPTURE(variant, ranks);
  const Words options =
      variant + Words{"--model=gpt2",
                      "--model-args=vocab_size=3000,n_layer=2,n_head=2,n_embd=128,block_size=32,dropout=0.1",
                      "--dataset=synthetic",
                      "--batch-size=2",
                      "--threads=1",
                      "--seed=3",
                      "--eval-every=0",
                      "--checkpoint-every=2"};
  const Words shard{"--shard-optimizer"};
  const TemporaryFolder folder;
  const auto optimizer_of = [&](const char* run) {
    return contents(folder.path() / run / "checkpoints" / "latest" / "optimizer.safetensors");
  };
  const auto shards = train(ranks, options + shard + Words{"--max-steps=4"}, folder.path() / "shards");
  const auto all = train(ranks, options + Words{"--max-steps=4"}, folder.path() / "all");
  CHECK(shards["weights_sha256"] == all["weights_sha256"]);
  CHECK(optimizer_of("shards") == optimizer_of("all"));
  train(ranks, options + shard + Words{"--max-steps=2"}, folder.path() / "halves");
  const auto halves =
      train(ranks, options + Words{"--max-steps=4", "--resume=auto"}, folder.path() / "halves");
  CHECK(halves["weights_sha256"] == all["weights_sha256"]);
  CHECK(optimizer_of("halves") == optimizer_of("all"));
}

TEST_CASE(
    "micro-batches learn what one large batch learns, on any number of ranks and in a smaller last step") {
  // 500 = 13 x 36 + 32: a rest of 12 + 12 + 8 on one rank, of 6 + 6 + 4 on each of two.
  const Words options =
      small_images + Words{"--model=simplecnn", "--optimizer=sgd",   "--lr=0.05",      "--momentum=0.9",
                           "--epochs=2",        "--global-batch=36", "--eval-every=0", "--clip-grad-norm=2"};
  const TemporaryFolder folder;
  const auto one = train(1, options, folder.path() / "1");
  for (const int ranks : {1, 2}) {
    const auto run_dir = folder.path() / (std::to_string(ranks) + "x3");
    const auto parts = train(ranks, options + Words{"--accumulate-steps=3"}, run_dir);
    CHECK(parts["steps"] == 28);
    CHECK(parts["samples"] == 1000);
    CHECK(parts["final_loss"].get<double>() ==
          Approx(one["final_loss"].get<double>()).epsilon(loss_rounding));
    CHECK(largest_difference(folder.path() / "1", run_dir) < weight_rounding);
  }
}

TEST_CASE(
    "micro-batches of uneven data: padded ranks, whole steps with --drop-last, the same bits serially") {
  const Words options =
      small_images + Words{"--model=mlp", "--optimizer=sgd", "--lr=0.05", "--epochs=1", "--eval-every=0"};
  const TemporaryFolder folder;
  const Words large{"--batch-size=12"};
  const Words parts{"--batch-size=4", "--accumulate-steps=3"};
  for (const Words& drop : {Words{}, Words{"--drop-last"}}) {
    const auto run_dir = [&](const char* name) {
      return folder.path() / (name + std::to_string(drop.size()));
    };
    const auto of_large = train(3, options + drop + large, run_dir("large"));
    const auto of_parts = train(3, options + drop + parts, run_dir("parts"));
    CHECK(of_parts["steps"] == of_large["steps"]);
    CHECK(of_parts["samples"] == of_large["samples"]);
    CHECK(of_parts["samples"] == (drop.empty() ? 501 : 468));
    CHECK(largest_difference(run_dir("large"), run_dir("parts")) < 2e-4);
    const auto serial = train(3, options + drop + parts + Words{"--no-overlap"}, run_dir("serial"));
    CHECK(serial["weights_sha256"] == of_parts["weights_sha256"]);
  }
}

TEST_CASE("--recompute: the same bits in less memory") {
  const Words options{"--dataset=synthetic",
                      "--image-shape=3x32x32",
                      "--samples=64",
                      "--log-every=1",
                      "--model=mobilenet_v3_small",
                      "--batch-size=4",
                      "--accumulate-steps=2",
                      "--max-steps=2",
                      "--eval-every=0"};
  const TemporaryFolder folder;
  const auto kept = train(2, options, folder.path() / "kept");
  const auto again = train(2, options + Words{"--recompute"}, folder.path() / "again");
  CHECK(again["weights_sha256"] == kept["weights_sha256"]);
  CHECK(again["plan_bytes"] < kept["plan_bytes"]);
}

TEST_CASE("schedules, clipped values, amsgrad, partial decay and averages: ranks learn what one learns") {
  const Words options = small_images + Words{"--model=simplecnn",
                                             "--samples=480",
                                             "--optimizer=adamw",
                                             "--amsgrad",
                                             "--global-batch=32",
                                             "--lr-schedule=linear",
                                             "--warmup-steps=3",
                                             "--clip-grad-value=1e-3",
                                             "--weight-decay=1",
                                             "--weight-decay-for=matrices",
                                             "--ema=0.5",
                                             "--eval-every=1",
                                             "--eval-samples=100",
                                             "--max-steps=15",
                                             "--first-bucket-mb=0.01",
                                             "--bucket-cap-mb=0.01",
                                             "--eps=1e-3"};
  const TemporaryFolder folder;
  const auto one = train(1, options, folder / "1");
  const auto two = train(2, options, folder / "2");
  CHECK(two["final_loss"].get<double>() == Approx(one["final_loss"].get<double>()).epsilon(1e-4));
  CHECK(two["eval"]["loss"].get<double>() == Approx(one["eval"]["loss"].get<double>()).epsilon(1e-4));
  // Sums of the same terms in another order; eps keeps Adam from dividing small sums by small ones.
  CHECK(largest_difference(folder / "1", folder / "2") < 1e-4);
  const auto serial = train(2, options + Words{"--no-overlap"}, folder / "serial");
  CHECK(two["weights_sha256"] == serial["weights_sha256"]);
  // What was evaluated is what was saved.
  const auto saved =
      train(1,
            small_images + Words{"--model=simplecnn", "--samples=480", "--optimizer=sgd", "--lr=0",
                                 "--max-steps=1", "--eval-every=1", "--eval-samples=100", "--init-from",
                                 (folder / "2" / "model.safetensors").string()},
            folder / "saved");
  CHECK(saved["eval"]["loss"].get<double>() == Approx(two["eval"]["loss"].get<double>()).epsilon(1e-5));
}

TEST_CASE("several compute threads give the same bits from run to run") {
  const Words options{"--model=convnet", "--dataset=synthetic", "--samples=256", "--threads=2",
                      "--max-steps=8"};
  const TemporaryFolder folder;
  const auto first = train(1, options, folder.path() / "a");
  const auto second = train(1, options, folder.path() / "b");
  CHECK(first["threads"] == 2);
  CHECK(first["weights_sha256"] == second["weights_sha256"]);
}

TEST_CASE("a run can be repeated from its config.ini") {
  const TemporaryFolder folder;
  const auto first =
      train(2, small_images + Words{"--model=simplecnn", "--optimizer=adamw", "--max-steps=12"},
            folder.path() / "a");
  const auto again =
      train(2, Words{"--config", (folder.path() / "a" / "config.ini").string()}, folder.path() / "b");
  CHECK(first["weights_sha256"] == again["weights_sha256"]);
}

TEST_CASE("loader threads change nothing") {
  const Words options =
      small_images + Words{"--model=mlp", "--batch-size=16", "--epochs=1", "--eval-every=0"};
  const TemporaryFolder folder;
  const auto none = train(2, options + Words{"--num-workers=0"}, folder.path() / "0");
  const auto three = train(2, options + Words{"--num-workers=3"}, folder.path() / "3");
  CHECK(none["weights_sha256"] == three["weights_sha256"]);
  const auto deep = train(2, options + Words{"--num-workers=2", "--prefetch-factor=40"}, folder / "deep");
  CHECK(none["weights_sha256"] == deep["weights_sha256"]);
}

TEST_CASE("more ranks than cores") {
  const TemporaryFolder folder;
  const auto summary =
      train(8, small_images + Words{"--model=mlp", "--samples=512", "--batch-size=8", "--max-steps=20"},
            folder.path() / "run");
  CHECK(summary["world_size"] == 8);
  CHECK(summary["samples"] == 20 * 64);
}

TEST_CASE("the planned peak is what the device allocator maps, within 3 %") {
  const std::string model = GENERATE("mlp", "convnet");
  const TemporaryFolder folder;
  const Words options{"--model=" + model, "--dataset=synthetic", "--batch-size=64", "--threads=1",
                      GENERATE("--amp=off", "--amp=bf16")};
  const auto summary = train(1, options + Words{"--max-steps=3", "--eval-every=0"}, folder.path() / "run");
  Program plan(Words{TRAINER_PROGRAM, "plan"} + options);
  REQUIRE(plan.wait_for_end() == 0);
  const std::string& text = plan.output();
  const double planned = std::stod(text.substr(text.rfind('(') + 1));
  CHECK(planned == Approx(summary["plan_bytes"].get<double>()).epsilon(0.03));
}

}  // namespace
}  // namespace lockstep::tests
