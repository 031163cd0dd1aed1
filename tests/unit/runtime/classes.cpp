#include <numeric>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/run/inference.h"
#include "runtime/run/task.h"
#include "runtime/run/task_names.h"
#include "runtime/weights/weights_file.h"
#include "runtime/weights/write_weights.h"
#include "tests/support/catch.h"
#include "tests/support/files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/runtime/task_of_words.h"

namespace lockstep::runtime {
namespace {

using testing::head_of;
using testing::refusal;
using testing::task_of;
using testing::Words;

TEST_CASE("the classes are the model's own, what was asked for, or the data set's") {
  const auto classes = [](const Words& words) { return task_of(words).input.num_classes; };
  CHECK(classes({"--model=resnet18", "--dataset=synthetic"}) == 1000);
  CHECK(classes({"--model=mlp", "--dataset=synthetic"}) == 10);
  CHECK(classes({"--model=mlp", "--dataset=synthetic", "--model-args", "num_classes=7"}) == 7);
  CHECK(classes({"--model=mlp", "--dataset=synthetic", "--num-classes=7"}) == 7);
  CHECK(classes({"--model=resnet18", "--dataset=fashion-mnist"}) == 10);
  CHECK(classes({"--model=resnet18", "--dataset=fashion-mnist", "--model-args", "num_classes=10"}) == 10);
}

TEST_CASE("class counts that contradict each other are refused") {
  CHECK(refusal({"--model=mlp", "--dataset=synthetic", "--num-classes=5", "--model-args", "num_classes=7"}) ==
        "--num-classes 5 and --model-args num_classes=7 contradict each other");
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--model-args", "num_classes=7"}) ==
        "--model-args num_classes=7: data set fashion-mnist has 10 classes; leave it out");
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--num-classes=7"}) ==
        "--num-classes 7: data set fashion-mnist has 10 classes; leave it out");
}

TEST_CASE("options that the data set does not read are refused where it is known") {
  CHECK(refusal({"--model=mlp", "--dataset=fashion-mnist", "--samples=100"}) ==
        "--samples is not read by --dataset fashion-mnist: leave it out, or give --dataset synthetic");
}

TEST_CASE("--label-smoothing is refused for a loss of values, unless a run's config.ini has it") {
  const Words words{"--model=linear", "--dataset=synthetic", "--label-smoothing=0.1"};
  CHECK(refusal(words) ==
        "--label-smoothing is of the cross-entropy, but model 'linear' learns values: leave it out");
  const tests::TemporaryFolder folder;
  const auto config = folder / "config.ini";
  tests::write_file(config, to_ini(parse_options(words)));
  CHECK(refusal({"--config", config.string()}).empty());
  const Words classes{"--config", config.string(), "--model=mlp"};
  CHECK(task_of(classes).model.label_smoothing == 0.1F);
}

TEST_CASE("labels of a file of tensors are below the model's classes, however few there are") {
  const tests::TemporaryFolder folder;
  const std::vector<float> inputs(4);
  std::vector<std::int64_t> targets(4);
  std::iota(targets.begin(), targets.end(), 3);
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {4, 1}, std::as_bytes(std::span(inputs))},
      {"targets", DType::i64, {4}, std::as_bytes(std::span(targets))}};
  const std::string file = (folder / "samples").string();
  write_safetensors(file, tensors);
  const Words words{"--model=mlp", "--dataset=tensors", "--data-dir=" + file};
  CHECK(task_of(words).input.num_classes == 10);
  const auto with_classes = [&](const std::string& count) {
    Words all = words;
    all.insert(all.end(), {"--model-args", "num_classes=" + count});
    return all;
  };
  CHECK(task_of(with_classes("7")).input.num_classes == 7);
  CHECK(tests::message_of<DataError>([&] { task_of(with_classes("6")); }) ==
        file +
            ": targets[3] is 6, no class below num_classes 6; --model-args num_classes=N says how many "
            "there are");
}

TEST_CASE("classes have the names that the weights know, else those of the data set") {
  const tests::TemporaryFolder folder;
  tests::write_file(folder / "a.tsv", "pos\tab\nneg\tb\n");
  const Options options =
      parse_options(Words{"--model=rnn", "--dataset=labelled-text",
                          "--data-dir=" + (folder / "a.tsv").string(), "--tokenizer=characters"});
  const std::vector<std::string> known{"pos", "neg", "odd"};
  const auto names_by = [&](const KeptNames& names) {
    return open_test_set(options, head_of(folder / "w.safetensors", 3, names), nullptr).class_names;
  };
  CHECK(names_by({}) == std::vector<std::string>{"neg", "pos"});
  CHECK(names_by({.classes = known}) == known);
}

TEST_CASE("that classes are numbered by a guess is told where the weights know more and do not name them") {
  const tests::TemporaryFolder folder;
  const std::string text = (folder / "a.tsv").string();
  tests::write_file(text, "pos\tab\nneg\tb\n");
  const Options options = parse_options(
      Words{"--model=rnn", "--dataset=labelled-text", "--data-dir=" + text, "--tokenizer=characters"});
  const auto note = [&](std::int64_t classes, const KeptNames& names) {
    const WeightsFile weights = head_of(folder / "w.safetensors", classes, names);
    const data::DatasetPtr samples = open_test_set(options, weights, nullptr).samples;
    const TrainingTask task = task_for_weights(options, weights, samples->spec(), samples);
    CHECK(task.input.num_classes == classes);
    return task.note;
  };
  CHECK(
      note(3, {}) ==
      "labelled-text (" + text + "): its 2 classes are numbered from 0 in the order of their names, but " +
          (folder / "w.safetensors").string() +
          " knows 3 and not their names: scores are right only if the classes that are missing here are the "
          "last; give samples of each class, or weights with class_names in their metadata");
  CHECK(note(3, {.classes = {"pos", "neg", "odd"}}).empty());
  CHECK(note(2, {}).empty());
}

}  // namespace
}  // namespace lockstep::runtime
