#include "runtime/options/options.h"

#include "comm/world/world.h"
#include "kernels/base/error.h"
#include "runtime/options/table.h"
#include "runtime/run/run_plans.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using tests::message_of;
using Words = std::vector<std::string>;

std::string refusal(const Words& words) {
  return message_of<UsageError>([&] { parse_options(words); });
}

TEST_CASE("defaults are those of the contract") {
  const Options options = parse_options({});
  CHECK(options.batch_size == 64);
  CHECK(options.optimizer.kind == model::OptimizerKind::adam);
  CHECK(options.optimizer.learning_rate == 1e-3);
  CHECK(options.epochs == 1);
  CHECK(options.log_every == 50);
  CHECK(options.eval_every == 1);
  CHECK(options.matmul_precision == kernels::MatmulPrecision::highest);
  CHECK(options.bucket_cap_mb == 25);
  CHECK(options.timeout == 600);
  CHECK(options.checkpoint_every == 0);
  CHECK(options.keep == 3);
  CHECK(parse_options({"--optimizer=adamw"}).optimizer.weight_decay == 0.01);
  CHECK(parse_options({"--optimizer=adamw", "--weight-decay=0"}).optimizer.weight_decay == 0);
  CHECK(parse_options({"--max-steps", "3"}).epochs == 0);
}

TEST_CASE("dash and underscore are the same, and a switch takes no word") {
  CHECK(parse_options({"--max_steps", "7"}).max_steps == 7);
  CHECK(parse_options({"--max-steps=7"}).max_steps == 7);
  const Options options = parse_options({"--drop_last", "--batch-size", "3"});
  CHECK(options.drop_last);
  CHECK(options.batch_size == 3);
  CHECK_FALSE(parse_options({"--drop-last=false"}).drop_last);
}

TEST_CASE("unknown options and abbreviations meet the nearest name") {
  CHECK(refusal({"--modle", "mlp"}) ==
        "unknown option '--modle', did you mean '--model'? `trainer --help` lists them");
  CHECK(refusal({"--max-step", "3"}) ==
        "unknown option '--max-step', did you mean '--max-steps'? `trainer --help` lists them");
  CHECK_FALSE(refusal({"--no-over"}).empty());
  CHECK_FALSE(refusal({"stray"}).empty());
  CHECK_FALSE(refusal({"--model"}).empty());
}

TEST_CASE("every option refuses a bad value in one line that names it") {
  const Words texts{"model",          "init-from", "dataset",     "data-dir", "world",     "run-dir",
                    "dump-gradients", "interface", "token-file",  "resume",   "plugin",    "output",
                    "freeze",         "prompt",    "prompt-file", "stop",     "tokenizer", "target-file"};
  for (const OptionEntry& entry : option_table()) {
    if (std::find(texts.begin(), texts.end(), entry.name) != texts.end()) continue;
    const std::string message = refusal({"--" + entry.name + "=?"});
    INFO(entry.name << ": " << message);
    CHECK(message.starts_with("--" + entry.name + ": "));
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(refusal({"--device", "tpu"}) == "--device: unknown value 'tpu', did you mean 'cpu'?");
  CHECK(refusal({"--backend", "smoke"}) ==
        "--backend: unknown value 'smoke'; there are: auto, nccl, host, mpi");
  CHECK(refusal({"--batch-size", "0"}) == "--batch-size: 0 is not in the range 1 to 16777216");
  CHECK(refusal({"--optimizer", "adan"}) == "--optimizer: unknown value 'adan', did you mean 'adam'?");
  CHECK(refusal({"--clip-grad-norm", "-1"}) == "--clip-grad-norm: -1 is not in the range 0 to 1e+38");
  CHECK(refusal({"--nesterov"}) == "--nesterov needs --momentum above 0");
  CHECK(refusal({"--eps", "0"}).starts_with("--eps: 0 is not in the range 1e-17"));
  CHECK(refusal({"--eps", "1e-30"}).starts_with("--eps: 1e-30 is not in the range 1e-17"));
}

/// The option as config.ini shows it after it was given as `text`.
std::string shown(const OptionEntry& entry, const std::string& text) {
  return entry.show(parse_options({"--" + entry.name + "=" + text}));
}

TEST_CASE("a number is taken as it is from the least to the greatest of its range, and refused beyond") {
  int numbers = 0;
  for (const OptionEntry& entry : option_table()) {
    if (entry.least.empty()) continue;
    ++numbers;
    INFO(entry.name);
    for (const std::string& text : {entry.least, entry.most}) {
      const std::string back = shown(entry, text);
      CHECK((back == text || (back.empty() && text == entry.least)));
    }
    const std::string range = " is not in the range " + entry.least + " to " + entry.most;
    for (const char* text : {"-1", "9223372036854775808", "18446744073709551617"}) {
      const std::string name = "--" + entry.name;
      const bool fits = std::stod(text) <= std::stod(entry.most) && std::stod(text) >= 0;
      if (!fits) CHECK(refusal({name + "=" + text}) == name + ": " + text + range);
    }
    CHECK_FALSE(refusal({"--" + entry.name + "=1e300"}).empty());
    CHECK_FALSE(refusal({"--" + entry.name + "=inf"}).empty());
    CHECK_FALSE(refusal({"--" + entry.name + "=nan"}).empty());
  }
  CHECK(numbers == 39);
}

TEST_CASE("--batch-size auto stays so until a run settles it, and has no number where nothing does") {
  const Options options = parse_options({"--batch-size=auto"});
  CHECK(options.batch_size == automatic_batch);
  CHECK(to_ini(options).find("batch-size = auto\n") != std::string::npos);
  CHECK_THROWS_AS(batch_size_per_rank(options, 1), UsageError);
  CHECK(refusal({"--batch-size=automatic"}).find("--batch-size") != std::string::npos);
}

TEST_CASE("synthetic data is evaluated only when asked for") {
  CHECK(parse_options({"--dataset=synthetic"}).eval_every == 0);
  CHECK(parse_options({"--dataset=FakeData"}).eval_every == 0);
  CHECK(parse_options({"--dataset=synthetic", "--eval-every=2"}).eval_every == 2);
  CHECK(parse_options({"--dataset=synthetic", "--eval-samples=9"}).eval_every == 1);
  CHECK(parse_options({"--dataset=synthetic", "--eval-samples=9"}).eval_samples == 9);
  CHECK(parse_options({"--dataset=mnist"}).eval_every == 1);
  CHECK(refusal({"--eval-every=0", "--eval-samples=9"}) ==
        "--eval-samples with --eval-every 0: nothing is evaluated; give --eval-every 1");
}

TEST_CASE("numbers that 32 bits would cut are refused with the range") {
  CHECK(refusal({"--num-workers", "4294967296"}) ==
        "--num-workers: 4294967296 is not in the range 0 to 4096");
  CHECK(refusal({"--threads", "4294967297"}) == "--threads: 4294967297 is not in the range 1 to 4096");
  CHECK(refusal({"--num-classes", "9223372036854775807"}) ==
        "--num-classes: 9223372036854775807 is not in the range 0 to 16777216");
  CHECK(refusal({"--bucket-cap-mb", "1e300"}) == "--bucket-cap-mb: 1e300 is not in the range 0 to 1048576");
  CHECK(refusal({"--image-shape", "4294967296x4294967296"}) ==
        "--image-shape: 4294967296 is not in the range 1 to 2147483647");
  CHECK_THAT(refusal({"--image-shape", "65536x65536x65536"}),
             tests::contains("--image-shape: shape 65536x65536x65536 ") && tests::contains("2^40"));
  CHECK(refusal({"--port-range", "1-65536"}) == "--port-range: 65536 is not in the range 1 to 65535");
  CHECK(refusal({"--betas", "0.9,1"}).starts_with("--betas: 1 is not in the range 0 to 0.99"));
  CHECK(parse_options({"--timeout", "1e10"}).timeout == 1e10);
}

TEST_CASE("options of the optimizer and its schedule reach it") {
  const model::OptimizerOptions o =
      parse_options({"--lr-schedule=cosine", "--warmup-steps=7", "--lr-min=1e-5", "--lr-step-epochs=3",
                     "--lr-gamma=0.5", "--eps=1e-6", "--amsgrad", "--clip-grad-value=2",
                     "--weight-decay-for=matrices"})
          .optimizer;
  CHECK(o.schedule.kind == kernels::LearningRateSchedule::Kind::cosine);
  CHECK(o.schedule.warmup_steps == 7);
  CHECK(o.schedule.least == 1e-5);
  CHECK(o.schedule.step_epochs == 3);
  CHECK(o.schedule.gamma == 0.5);
  CHECK(o.epsilon == 1e-6);
  CHECK(o.amsgrad);
  CHECK(o.clip_value == 2);
  CHECK_FALSE(o.decays_vectors);
  const model::OptimizerOptions defaults = parse_options({"--clip-grad-value=0"}).optimizer;
  CHECK(defaults.clip_value == kernels::not_clipped);
  CHECK(defaults.decays_vectors);
}

TEST_CASE("a schedule ends with --max-steps, or else with the epochs, and its warm-up must leave a step") {
  const comm::World world;
  const auto steps = [&](const Words& words) {
    return batching_of(parse_options(words), world, 100).schedule_steps;
  };
  CHECK(steps({"--batch-size=32", "--epochs=3"}) == 12);
  CHECK(steps({"--batch-size=32", "--epochs=3", "--max-steps=50"}) == 50);
  CHECK(batching_of(parse_options({"--batch-size=32", "--epochs=3", "--max-steps=50"}), world, 100)
            .total_steps == 12);
  CHECK(steps({"--batch-size=32", "--max-steps=5"}) == 5);
  const auto refused = [&](const Words& words) {
    const Options options = parse_options(words);
    return tests::message_of<UsageError>(
        [&] { require_schedule(options, batching_of(options, world, 100), false); });
  };
  CHECK(refused({"--max-steps=5", "--warmup-steps=5"}) ==
        "--warmup-steps 5 leaves none of 5 steps with the full rate: give fewer, or more --epochs or "
        "--max-steps");
  CHECK(refused({"--batch-size=32", "--epochs=1", "--max-steps=50", "--warmup-steps=5"}) ==
        "--warmup-steps 5 leaves none of 4 steps with the full rate: give fewer, or more --epochs or "
        "--max-steps");
  CHECK(refused({"--batch-size=32", "--epochs=2", "--warmup-steps=5"}).empty());
  CHECK(refused({"--lr=0.1", "--lr-min=0.2"}) == "--lr-min 0.2 is above --lr 0.1");
}

TEST_CASE("every plan of a run is told what --allow-unused says") {
  CHECK_FALSE(plan_constraints(parse_options({})).allow_unused);
  CHECK(plan_constraints(parse_options({"--allow-unused"})).allow_unused);
}

TEST_CASE("what this version lacks is said; a value that asks for nothing passes") {
  for (const FutureOption& option : future_options()) {
    if (!option.neutral.empty()) CHECK(refusal({"--" + option.name + "=" + option.neutral}).empty());
  }
  CHECK(refusal({"--loss-average", "rank"}) == "--loss-average rank is not in this version; what is: global");
  CHECK(refusal({"--trace", "3"}) == "--trace 3 is not in this version; leave it out");
}

TEST_CASE(
    "--amp alone leaves the type to the device; without mixed precision a checkpoint says nothing of it") {
  CHECK(parse_options({}).amp == "off");
  CHECK(parse_options({"--amp"}).amp == "auto");
  CHECK(parse_options({"--amp", "--epochs", "2"}).amp == "auto");
  CHECK(parse_options({"--amp", "bf16", "--grad-dtype=bf16"}).grad_dtype == "bf16");
  CHECK(to_ini(parse_options({})).find("amp = ") == std::string::npos);
  CHECK_THAT(to_ini(parse_options({"--amp=bf16"})), tests::contains("amp = bf16"));
  CHECK_THAT(refusal({"--amp", "fp8"}), tests::contains("did you mean 'fp16'?"));
  CHECK_THAT(refusal({"--grad-dtype", "f32"}), tests::contains("did you mean 'fp32'?"));
}

TEST_CASE("--conv-precision is the device's own unless given; a checkpoint from before it had ieee") {
  CHECK_FALSE(parse_options({}).conv_precision);
  CHECK_THAT(to_ini(parse_options({})), tests::contains("conv-precision = ieee"));
  const Options options = parse_options({"--conv-precision=tf32"});
  CHECK(options.conv_precision == kernels::MatmulPrecision::high);
  CHECK_THAT(to_ini(options), tests::contains("conv-precision = tf32"));
  CHECK(parse_options({"--conv-precision", "bf16"}).conv_precision == kernels::MatmulPrecision::medium);
  CHECK_THAT(refusal({"--conv-precision", "tf23"}), tests::contains("did you mean 'tf32'?"));
}

TEST_CASE("sizes have units, and patterns are collected") {
  CHECK(parse_options({"--max-shard-size=5GB"}).max_shard_bytes == 5'000'000'000);
  CHECK(parse_options({"--max-shard-size", "3MiB"}).max_shard_bytes == 3 << 20);
  CHECK_THROWS_WITH(parse_options({"--max-shard-size=5Gb"}), tests::contains("whole number of bytes, or"));
  CHECK_THROWS_AS(parse_options({"--max-shard-size=0"}), UsageError);
  CHECK(parse_options({"--freeze=a.*,b", "--freeze", "c"}).freeze == Words{"a.*", "b", "c"});
}

TEST_CASE("a command on a run takes model and data from its config.ini, and what is typed wins") {
  const tests::TemporaryFolder folder;
  tests::write_file(
      folder / "config.ini",
      "model = mlp\nmodel-args = hidden=7\ndataset = mnist\ndata-dir = /there\nbatch-size = 9\n"
      "epochs = 5\ninit-from = /w\nglobal-batch = 64\nrun-dir = /r\neval-samples = 50\nseed = 3\n");
  const auto parse = [&](const Words& words) {
    return parse_options_of_run(words,
                                [&](const std::string&) { return std::optional(folder / "config.ini"); });
  };
  const CommandOptions plain = parse({"RUN", "--quiet"});
  CHECK(plain.operands == Words{"RUN"});
  CHECK_FALSE(plain.data_given);
  CHECK(plain.options.model == "mlp");
  CHECK(plain.options.model_args.at("hidden") == "7");
  CHECK(parse_options({"--model=mlp", "--model-args= hidden = 7 "}).model_args.at("hidden") == "7");
  CHECK(plain.options.data_dir == "/there");
  CHECK(plain.options.batch_size == 9);
  CHECK(plain.options.eval_samples == 50);
  CHECK(plain.options.seed == 3);
  CHECK(plain.options.global_batch == 0);
  CHECK(plain.options.init_from.empty());
  CHECK(plain.options.run_dir.empty());
  const CommandOptions pictures = parse({"RUN", "--quiet", "a.jpg"});
  CHECK(pictures.operands == Words{"RUN", "a.jpg"});
  CHECK(pictures.options.dataset == "mnist");
  CHECK(pictures.options.data_dir.empty());
  CHECK(pictures.options.eval_samples == 0);
  const auto no_config = [](const std::string&) { return std::optional<std::filesystem::path>(); };
  CHECK(parse_options_of_run({"FILE", "a.jpg"}, no_config).options.dataset == "image-folder");
  CHECK(parse_options_of_run({"FILE", "a.jpg", "--dataset=mnist"}, no_config).options.dataset == "mnist");
  CHECK(parse_options_of_run({"FILE"}, no_config).options.dataset == "fashion-mnist");
  const CommandOptions typed = parse({"--batch-size=2", "--dataset=synthetic", "RUN"});
  CHECK(typed.data_given);
  CHECK(typed.options.batch_size == 2);
  CHECK(typed.options.data_dir.empty());
  CHECK(typed.options.eval_samples == 0);
}

TEST_CASE("data are new to weights unless they are those of their run") {
  const tests::TemporaryFolder folder;
  for (const char* name : {"a.txt", "b.txt"}) tests::write_file(folder / name, "text");
  const auto path = [&](const char* name) { return (folder / name).string(); };
  tests::write_file(folder / "config.ini",
                    "model = gpt2\ndataset = text\ndata-dir = " + path("a.txt") + "\n");
  const auto are_new = [&](const Words& words) {
    const auto config = [&](const std::string&) { return std::optional(folder / "config.ini"); };
    return parse_options_of_run(words, config).options.data_are_new;
  };
  CHECK_FALSE(are_new({"RUN"}));
  CHECK_FALSE(are_new({"RUN", "--data-dir=" + path("./a.txt")}));
  CHECK(are_new({"RUN", "--data-dir=" + path("b.txt")}));
  CHECK_FALSE(parse_options({"--model=gpt2", "--dataset=text", "--data-dir=" + path("b.txt")}).data_are_new);
}

TEST_CASE("--world's help lists every source") {
  for (const auto& finding : comm::examine([](const char*) { return std::nullopt; })) {
    CHECK_THAT(options_help(), tests::contains(std::string(finding.source)));
  }
}

}  // namespace
}  // namespace lockstep::runtime
