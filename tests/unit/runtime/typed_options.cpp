// Options that a user typed and nobody would read, or one of two that go together.
#include "runtime/options/typed_options.h"

#include "kernels/base/error.h"
#include "runtime/options/options.h"
#include "runtime/options/table.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] {
    const Options options = parse_options(words);
    require_read_by_optimizer(options);
    require_read_by_dataset(options);
  });
}

TEST_CASE("each kind of optimizer and schedule has its name, typed and shown") {
  std::string all;
  for (const auto& [kind, name] : model::optimizer_kinds) {
    const Options options = parse_options({"--optimizer", std::string(name)});
    CHECK(options.optimizer.kind == kind);
    CHECK(find_entry("optimizer")->show(options) == name);
    CHECK(describe(options.optimizer).starts_with(std::string(name) + " lr=0.001 "));
    all += (all.empty() ? "" : "|") + std::string(name);
  }
  CHECK(find_entry("optimizer")->value_name == all);
  using Kind = kernels::LearningRateSchedule::Kind;
  const std::pair<Kind, std::string> schedules[] = {
      {Kind::constant, "constant"}, {Kind::step, "step"}, {Kind::cosine, "cosine"}, {Kind::linear, "linear"}};
  for (const auto& [kind, name] : schedules) {
    const Options options = parse_options({"--lr-schedule", name});
    CHECK(options.optimizer.schedule.kind == kind);
    CHECK(find_entry("lr-schedule")->show(options) == name);
  }
}

TEST_CASE("an option that the optimizer does not read is refused, with who does") {
  CHECK(refusal({"--lr=0.1", "--momentum=0.9"}) ==
        "--momentum is not read by --optimizer adam: leave it out, or give --optimizer sgd");
  CHECK(refusal({"--optimizer=sgd", "--momentum=0.9", "--nesterov"}).empty());
  CHECK(refusal({"--optimizer=sgd", "--momentum=0.9", "--dampening=0.3"}).empty());
  CHECK(refusal({"--dampening=0.3"}) ==
        "--dampening is not read by --optimizer adam: leave it out, or give --optimizer sgd");
  CHECK(refusal({"--optimizer=sgd", "--dampening=0.3"}) ==
        "--dampening is of momentum: give --momentum above 0, or leave it out");
  CHECK(refusal({"--optimizer=sgd", "--dampening=0"}).empty());
  CHECK(refusal({"--optimizer=sgd", "--momentum=0.9", "--nesterov", "--dampening=0.3"}) ==
        "--nesterov needs --dampening 0, as in PyTorch");
  CHECK(refusal({"--optimizer=sgd", "--eps=1e-6"}) ==
        "--eps is not read by --optimizer sgd: leave it out, or give --optimizer adam or adamw");
  CHECK_FALSE(refusal({"--optimizer=sgd", "--betas=0.9,0.99"}).empty());
  CHECK_FALSE(refusal({"--optimizer=sgd", "--amsgrad"}).empty());
  CHECK(refusal({"--optimizer=sgd", "--amsgrad=false"}).empty());
  CHECK(refusal({"--optimizer=adamw", "--betas=0.9,0.99", "--eps=1e-6", "--amsgrad"}).empty());
}

TEST_CASE("an option that the schedule of the learning rate does not read is refused") {
  CHECK(refusal({"--lr-gamma=0.5"}) ==
        "--lr-gamma is not read by --lr-schedule constant: leave it out, or give --lr-schedule step");
  CHECK_FALSE(refusal({"--lr-schedule=cosine", "--lr-step-epochs=3"}).empty());
  CHECK_FALSE(refusal({"--lr-min=1e-5", "--warmup-steps=3"}).empty());
  for (const char* schedule : {"step", "cosine", "linear"})
    CHECK(refusal({"--lr-schedule", schedule, "--lr-min=1e-5", "--warmup-steps=3"}).empty());
  CHECK(refusal({"--lr-schedule=step", "--lr-step-epochs=3", "--lr-gamma=0.5"}).empty());
}

TEST_CASE("an option that the data set does not read is refused, unless a plugin may read it") {
  CHECK(refusal({"--dataset-size=1000"}) ==
        "--samples is not read by --dataset fashion-mnist: leave it out, or give --dataset synthetic");
  for (const char* option : {"--image-shape=3x64x64", "--windows=each", "--token-dtype=uint32",
                             "--tokenizer=tokenizer.json", "--target-file=a.tgt"}) {
    CAPTURE(option);
    CHECK_FALSE(refusal({"--dataset=cifar10", option}).empty());
    CHECK(refusal({"--plugin=rings.so", "--dataset=rings", option}).empty());
  }
  CHECK_FALSE(refusal({"--dataset=synthetic", "--data-dir=/nowhere"}).empty());
  CHECK_FALSE(refusal({"--dataset=text", "--corrupt-samples=skip"}).empty());
  CHECK_FALSE(refusal({"--dataset=tensors", "--seq-len=3"}).empty());
  CHECK(refusal({"--dataset=synthetic", "--samples=5", "--image-shape=3x8x8", "--seq-len=3"}).empty());
  CHECK(refusal({"--dataset=tokens", "--windows=each", "--token-dtype=uint32", "--tokenizer=t"}).empty());
  CHECK(refusal({"--dataset=parallel-text", "--target-file=a.tgt", "--tokenizer=t"}).empty());
}

std::string refusal_of(const OptionReader& command, const Words& words) {
  return tests::message_of<UsageError>([&] { parse_options_for(command, words); });
}

TEST_CASE("a command refuses options that it does not read, with who does") {
  CHECK(refusal_of(training_options(), {"--max-new-tokens=9"}) ==
        "--max-new-tokens is not read by trainer train and plan, only by trainer predict --prompt: leave it "
        "out");
  CHECK(refusal_of(training_options(), {"--output=a.safetensors"}) ==
        "--output is not read by trainer train and plan, only by trainer predict: leave it out");
  CHECK(refusal_of(training_options(), {"--epochs=3", "--freeze=fc1.*"}).empty());
  CHECK(refusal_of(eval_options(), {"--lr=3"}) ==
        "--lr is not read by trainer eval, only by trainer train and plan: leave it out");
  for (const char* option : {"--epochs=3", "--label-smoothing=0.1", "--transform=flip", "--init-from=a",
                             "--checkpoint-every=3", "--output=a", "--top-k=3", "--no-shuffle"}) {
    CAPTURE(option);
    CHECK_FALSE(refusal_of(eval_options(), {option}).empty());
  }
  CHECK(refusal_of(eval_options(), {"--no-shuffle=false", "--eval-samples=3", "--threads=1", "--timeout=9",
                                    "--token-file=a", "--amp", "--deterministic"})
            .empty());
  CHECK(refusal_of(predict_options(), {"--output=a.safetensors"}).empty());
  CHECK(refusal_of(predict_options(), {"--top-k=3"}) ==
        "--top-k is not read by trainer predict, only by trainer predict --prompt: leave it out");
  CHECK(refusal_of(prompt_options(), {"--prompt=a", "--top-k=3", "--num-samples=3", "--seed=5"}).empty());
  CHECK_FALSE(refusal_of(prompt_options(), {"--prompt=a", "--image-shape=3x3x3"}).empty());
  CHECK_FALSE(refusal_of(list_options(), {"--model=mlp"}).empty());
  CHECK_FALSE(refusal_of(devices_options(), {"--lr=3"}).empty());
}

TEST_CASE("a command may mean another data set where none is given") {
  const OptionReader& plan = training_options();
  CHECK(parse_options_for(plan, {"--model", "mlp"}, "synthetic").dataset == "synthetic");
  CHECK(parse_options_for(plan, {"--model", "mlp", "--dataset", "mnist"}, "synthetic").dataset == "mnist");
  CHECK(parse_options_for(plan, {"--model", "mlp"}).dataset == "fashion-mnist");
}

TEST_CASE("a program of one's own refuses what trainer's models and data read, unless it reads that itself") {
  const OptionReader none = options_of_program({}), some = options_of_program({"data-dir", "samples"});
  CHECK(refusal_of(none, {"--model=resnet50"}) ==
        "--model is not read by this program, which has its own model and data: leave it out");
  for (const char* option :
       {"--plugin=a.so", "--model-args=a=1", "--dataset=cifar10", "--data-dir=d", "--download", "--samples=5",
        "--image-shape=3x3x3", "--num-classes=7", "--vocab-size=7", "--seq-len=5", "--windows=each",
        "--corrupt-samples=skip", "--output=a", "--prompt=a"}) {
    CAPTURE(option);
    CHECK_FALSE(refusal_of(none, {option}).empty());
  }
  CHECK(refusal_of(some, {"--data-dir=d", "--samples=5", "--lr=0.1", "--batch-size=8"}).empty());
  CHECK_FALSE(refusal_of(some, {"--num-classes=5"}).empty());
  CHECK_THAT(options_help(&none), !tests::contains("--data-dir "));
  CHECK_THAT(options_help(&some), tests::contains("--data-dir "));
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "run.ini", "dataset = synthetic\nmodel = mlp\nlr = 0.5\n");
  const Options options = parse_options_for(none, {"--config", (folder / "run.ini").string()});
  CHECK(options.model.empty());
  CHECK(options.eval_every == 1);  // as no synthetic data's
  CHECK(options.optimizer.learning_rate == 0.5);
}

TEST_CASE("what a config file says for other commands is left aside") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "run.ini", "model = mlp\nlr = 0.5\ntop-k = 3\n");
  const Words words{"--config", (folder / "run.ini").string()};
  CHECK(parse_options_for(training_options(), words).optimizer.learning_rate == 0.5);
  CHECK(parse_options_for(training_options(), words).generation.top_k == 0);
  CHECK(refusal_of(eval_options(), words).empty());
  CHECK(refusal_of(list_options(), words).empty());
}

TEST_CASE("what a config file says was typed, unless a run wrote it") {
  const tests::TemporaryFolder folder;
  const auto own = folder / "own.ini", of_a_run = folder / "config.ini";
  tests::write_file(own, "model = mlp\nmomentum = 0.9\n");
  CHECK_FALSE(refusal({"--config", own.string()}).empty());
  tests::write_file(of_a_run,
                    to_ini(parse_options({"--model=mlp", "--optimizer=sgd", "--momentum=0.9", "--nesterov",
                                          "--dataset=synthetic", "--samples=5", "--global-batch=64"})));
  const Words repeated{"--config", of_a_run.string()};
  const auto with = [&](const Words& more) {
    Words words = repeated;
    words.insert(words.end(), more.begin(), more.end());
    return refusal(words);
  };
  CHECK(with({}).empty());
  CHECK(with({"--optimizer=adam", "--dataset=mnist"}).empty());
  CHECK_FALSE(with({"--optimizer=adam", "--momentum=0.9"}).empty());
  CHECK(with({"--batch-size=8"}).empty());
  CHECK(with({"--global-batch=32"}).empty());
}

TEST_CASE("--batch-size beside --global-batch is refused, with what makes micro-batches") {
  CHECK(refusal({"--batch-size=32", "--global-batch=512"}) ==
        "--batch-size 32 beside --global-batch 512: leave it out; micro-batches of 32 are "
        "--accumulate-steps N, where N x 32 x ranks = 512");
  CHECK(refusal({"--batch-size=auto", "--global-batch=512"}) ==
        "--batch-size auto beside --global-batch 512: leave one of them out");
  CHECK(refusal({"--accumulate-steps=4", "--global-batch=512"}).empty());
}

TEST_CASE("a list of transforms that normalises otherwise than the other's default is refused") {
  CHECK(refusal({"--dataset=cifar10", "--transform=pad-crop=4,flip"}) ==
        "--transform pad-crop=4,flip normalises otherwise than --eval-transform normalise=cifar10, which was "
        "not given: give both");
  CHECK(refusal({"--dataset=mnist", "--transform=normalise=0.5/0.5"}) ==
        "--transform normalise=0.5/0.5 normalises otherwise than --eval-transform none, which was not given: "
        "give both");
  CHECK_FALSE(refusal({"--dataset=cifar10", "--transform=none"}).empty());
  CHECK_FALSE(refusal({"--dataset=cifar10", "--eval-transform=normalise=imagenet"}).empty());
  CHECK(refusal({"--dataset=cifar10", "--transform=pad-crop=4,flip,normalise=cifar10"}).empty());
  CHECK(refusal({"--dataset=cifar10", "--transform=flip", "--eval-transform=normalise=cifar10"}).empty());
  CHECK(refusal({"--dataset=mnist", "--transform=pad-crop=2"}).empty());
  CHECK(refusal({"--plugin=rings.so", "--dataset=rings", "--transform=normalise=0.5/0.5"}).empty());
}

TEST_CASE("weights may be scored on pictures that are normalised otherwise") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "config.ini", to_ini(parse_options({"--model=mlp", "--dataset=cifar10"})));
  const auto config_of = [&](const std::string&) { return std::optional(folder / "config.ini"); };
  CHECK(parse_options_of_run({"RUN", "--eval-transform=none"}, config_of).options.eval_transform == "none");
}

}  // namespace
}  // namespace lockstep::runtime
