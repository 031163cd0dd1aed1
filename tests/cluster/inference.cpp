// trainer eval and trainer predict: what weights give, on any number of ranks.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "kernels/base/safetensors.h"
#include "tests/support/json_lines.h"
#include "tests/support/refusal.h"

namespace lockstep::tests {
namespace {

/// 130 samples on 3 ranks in batches of 16: the last batch has 34 = 12 + 11 + 11.
const Words training{"--model=simplecnn", "--dataset=synthetic", "--samples=130",  "--image-shape=3x12x12",
                     "--threads=1",       "--batch-size=16",     "--eval-every=1", "--epochs=2",
                     "--seed=3",          "--checkpoint-every=4"};

TEST_CASE("eval gives the run's scores on any number of ranks, from RUN, a checkpoint and a file") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  const auto trained = train(2, training, run)["eval"];
  const std::string latest = (run / "checkpoints/latest").string();
  for (const int ranks : {1, 2, 3}) {
    const auto scores = lines_of(output_of(ranks, {"eval", run.string(), "--threads=1"}));
    REQUIRE(scores.size() == 1);
    CHECK(scores[0]["samples"] == 130);
    CHECK(scores[0]["accuracy"] == trained["accuracy"]);
    // The same numbers summed in another order.
    CHECK(scores[0]["loss"].get<double>() == Approx(trained["loss"].get<double>()).epsilon(1e-6));
  }
  const auto of_checkpoint = lines_of(output_of(1, {"eval", latest, "--batch-size=7"}));
  CHECK(of_checkpoint.at(0)["accuracy"] == trained["accuracy"]);
  const auto of_file = lines_of(
      output_of(1, Words{"eval", (run / "model.safetensors").string(), "--model=simplecnn",
                         "--dataset=synthetic", "--samples=130", "--image-shape=3x12x12", "--seed=3"}));
  CHECK(of_file.at(0)["accuracy"] == trained["accuracy"]);
}

TEST_CASE("predict gives one line a sample in order, and the same logits in a file") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  train(1, training, run);
  const std::string file = (folder / "logits.safetensors").string();
  const auto one = lines_of(output_of(1, {"predict", run.string(), "--threads=1"}));
  const auto three = lines_of(output_of(3, {"predict", run.string(), "--threads=1"}));
  output_of(3, {"predict", run.string(), "--threads=1", "--output", file});
  REQUIRE(one.size() == 130);
  REQUIRE(three.size() == 130);
  const SafetensorsFile logits(file);
  const auto* tensor = logits.find("logits");
  REQUIRE(tensor != nullptr);
  REQUIRE(tensor->shape == Shape{130, 10});
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i]["index"] == i);
    CHECK(one[i] == three[i]);
    std::array<float, 10> row{};
    std::memcpy(row.data(), tensor->bytes.data() + i * sizeof(row), sizeof(row));
    CHECK(one[i]["class"] == std::ranges::max_element(row) - row.begin());
    CHECK(one[i]["top5"].size() == 5);
    CHECK(one[i]["top5"][0]["probability"] == one[i]["probability"]);
  }
}

namespace {

/// A run on samples of classes in `run`, and its inputs without targets in seen.safetensors.
void train_on_tensors(const TemporaryFolder& folder) {
  const std::vector<float> inputs(4 * 6, 0.5F);
  const std::vector<std::int64_t> targets{0, 1, 2, 0};
  const SafetensorsFile::Tensor x{"inputs", DType::f32, {4, 6}, std::as_bytes(std::span(inputs))};
  const SafetensorsFile::Tensor y{"targets", DType::i64, {4}, std::as_bytes(std::span(targets))};
  write_safetensors(folder / "train.safetensors", std::vector{x, y});
  write_safetensors(folder / "seen.safetensors", std::vector{x});
  train(1, {"--model=mlp", "--dataset=tensors", "--data-dir", (folder / "train.safetensors").string()},
        folder / "run");
}

}  // namespace

TEST_CASE("predict reads inputs without targets, and takes the classes from the weights") {
  const TemporaryFolder folder;
  train_on_tensors(folder);
  const auto lines = lines_of(output_of(
      2, {"predict", (folder / "run").string(), "--data-dir", (folder / "seen.safetensors").string()}));
  REQUIRE(lines.size() == 4);
  const SafetensorsFile weights(folder / "run/model.safetensors");
  const std::int64_t classes = weights.find("3.bias")->shape[0];
  CHECK(lines[0]["top5"].size() == static_cast<std::size_t>(std::min<std::int64_t>(5, classes)));
}

TEST_CASE("--eval-samples are spread over a set that is ordered by class, and predict says which they are") {
  const TemporaryFolder folder;
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  for (std::int64_t sample = 0; sample < 40; ++sample) {
    targets.push_back(sample / 10);
    for (std::int64_t at = 0; at < 6; ++at)
      inputs.push_back(at == sample / 10 ? 1.0F : 0.01F * static_cast<float>(sample));
  }
  const std::string data = (folder / "data.safetensors").string();
  write_safetensors(
      data,
      std::vector{SafetensorsFile::Tensor{"inputs", DType::f32, {40, 6}, std::as_bytes(std::span(inputs))},
                  SafetensorsFile::Tensor{"targets", DType::i64, {40}, std::as_bytes(std::span(targets))}});
  train(1, {"--model=mlp", "--dataset=tensors", "--data-dir", data, "--threads=1"}, folder / "run");
  const std::string run = (folder / "run").string();
  const auto whole = lines_of(output_of(1, {"predict", run, "--threads=1"}));
  REQUIRE(whole.size() == 40);
  const std::string logits = (folder / "logits.safetensors").string();
  output_of(2, {"predict", run, "--threads=1", "--eval-samples=8", "--output", logits});
  const SafetensorsFile file(logits);
  REQUIRE(file.find("index") != nullptr);
  std::array<std::int64_t, 8> chosen{};
  REQUIRE(file.find("index")->bytes.size() == sizeof chosen);
  std::memcpy(chosen.data(), file.find("index")->bytes.data(), sizeof chosen);
  std::int64_t correct = 0;
  for (const int ranks : {1, 3}) {
    const auto lines = lines_of(output_of(ranks, {"predict", run, "--threads=1", "--eval-samples=8"}));
    REQUIRE(lines.size() == 8);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto index = lines[i]["index"].get<std::size_t>();
      CHECK(index / 5 == i);  // two of each class
      CHECK(lines[i]["index"] == chosen[i]);
      CHECK(lines[i]["class"] == whole[index]["class"]);
      if (ranks == 1) correct += lines[i]["class"] == targets[index] ? 1 : 0;
    }
  }
  const auto scores = lines_of(output_of(1, {"eval", run, "--threads=1", "--eval-samples=8"}));
  CHECK(scores.at(0)["samples"] == 8);
  CHECK(scores.at(0)["accuracy"].get<double>() == Approx(static_cast<double>(correct) / 8));
}

TEST_CASE("predict reads tokens from tensors for a model that learned from text") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a cab, a bad cab\n";
  write_file(folder / "text.txt", text);
  train(1,
        {"--model=gpt2", "--model-args=n_layer=1,n_head=2,n_embd=16,block_size=16", "--dataset=text",
         "--threads=1", "--batch-size=4", "--max-steps=2", "--eval-every=0", "--data-dir",
         (folder / "text.txt").string()},
        folder / "run");
  const std::vector<std::int64_t> tokens(2 * 16, 1);
  write_safetensors(
      folder / "seen.safetensors",
      std::vector{SafetensorsFile::Tensor{"inputs", DType::i64, {2, 16}, std::as_bytes(std::span(tokens))}});
  const auto lines = lines_of(output_of(
      1, {"predict", (folder / "run").string(), "--data-dir", (folder / "seen.safetensors").string()}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["top5"].size() == 5);  // of " ,abcd" and the line's end
}

TEST_CASE(
    "classes of a file of tensors have names where the weights or a data set that was typed tell them") {
  const TemporaryFolder folder;
  train_on_tensors(folder);
  const auto first = [&](const std::filesystem::path& weights, const Words& more) {
    return lines_of(output_of(1, Words{"predict", weights.string(), "--model=mlp", "--data-dir",
                                       (folder / "seen.safetensors").string()} +
                                     more))
        .at(0);
  };
  const auto unnamed = folder / "run/model.safetensors";
  CHECK_FALSE(first(folder / "run", {}).contains("name"));
  CHECK_FALSE(first(unnamed, {}).contains("name"));
  // These have their names in folders and archives.
  CHECK_FALSE(first(unnamed, {"--dataset=image-folder"}).contains("name"));
  CHECK_FALSE(first(unnamed, {"--dataset=shards"}).contains("name"));
  const auto digit = first(unnamed, {"--dataset=mnist"});
  CHECK(digit.at("name").get<std::string>().starts_with(std::to_string(digit["class"].get<int>()) + " - "));

  const SafetensorsFile file(unnamed);
  auto metadata = file.metadata();
  metadata["class_names"] = R"(["a","b","c","d","e","f","g","h","i","j"])";
  write_safetensors(folder / "named.safetensors", file.tensors(), metadata);
  const auto letter = first(folder / "named.safetensors", {"--dataset=mnist"});
  CHECK(letter.at("name") == std::string(1, static_cast<char>('a' + letter["class"].get<int>())));
}

TEST_CASE("an evaluation that lasts tells how far it is, that of a run and that of weights") {
  const TemporaryFolder folder;
  const Words small{"--model=convnet", "--dataset=synthetic", "--samples=64", "--threads=1", "--max-steps=1"};
  const Words lasting{"--eval-samples=4000000"};
  train(1, small, folder / "run");
  Program of_weights(trainer_words(1, Words{"eval", (folder / "run").string(), "--threads=1"} + lasting));
  Program of_run(trainer_words(1, small + lasting + Words{"--run-dir", (folder / "other").string()}));
  for (Program* program : {&of_weights, &of_run}) {
    program->wait_for("evaluating  sample ");
    ::kill(program->pid(), SIGTERM);
    CHECK(program->wait_for_end() == 75);
    CHECK_THAT(program->output(), contains("/4000000  ") && contains(" samples/s  ") && contains(" left\n"));
  }
}

TEST_CASE("what cannot be scored is said in one line, with the contract's exit code") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  train(1, training + Words{"--max-steps=2"}, run);
  expect(refusal({"eval"}), 2, "name a run, a checkpoint, or a file");
  expect(refusal({"eval", (run / "model.safetensors").string()}), 2, "give --model NAME");
  expect(refusal({"eval", (folder / "none").string()}), 3, "no such file or folder");
  expect(refusal({"eval", run.string(), "more"}), 2, "'more': trainer eval takes one");
  expect(refusal({"eval", run.string(), "--model=mlp"}), 3, "is none of the model's");
  write_file(run / "checkpoints/latest/model.safetensors", "cut");
  expect(refusal({"eval", (run / "checkpoints/latest").string()}), 3, "model.safetensors");
}

TEST_CASE("predict: the weights are not written over, whatever their file is called") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  train(1, training + Words{"--max-steps=2"}, run);
  const auto file = run / "model.safetensors";
  const std::string weights = contents(file);
  const Words there{"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", run.string(), TRAINER_PROGRAM};
  for (const Words& command : {Words{TRAINER_PROGRAM, "predict", run.string(), "--output", file.string()},
                               there + Words{"predict", ".", "--output", "model.safetensors"},
                               there + Words{"predict", "model.safetensors", "--model=simplecnn", "--output",
                                             "model.safetensors"}}) {
    const Refusal over = refusal_of(command);
    INFO(over.said);
    CHECK(over.code == 2);
    CHECK_THAT(over.said, contains("is what trainer predict reads"));
    CHECK(contents(file) == weights);
  }
}

TEST_CASE("predict: a number that is not finite is no answer, and what cannot be written is told before") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  train(1, training + Words{"--max-steps=2"}, run);
  const auto file = run / "model.safetensors";
  const std::string weights = contents(file);
  const std::string nan("\0\0\xc0\x7f", 4);
  write_file(file, weights.substr(0, weights.size() - nan.size()) + nan);
  const Words output = GENERATE(Words{}, Words{"--output", "logits.safetensors"});
  const Refusal broken = refusal(Words{"predict", run.string()} + output);
  INFO(broken.said);
  CHECK(broken.code == 6);
  CHECK_THAT(broken.said, contains("for sample 0 is not finite"));

  const Refusal nowhere =
      refusal({"predict", run.string(), "--output", (folder / "none/logits.safetensors").string()});
  INFO(nowhere.said);
  CHECK(nowhere.code == 4);
  CHECK_THAT(nowhere.said,
             contains("logits.safetensors: cannot create: ") && contains("make its folder first"));
}

}  // namespace
}  // namespace lockstep::tests
