#include <numeric>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "runtime/run/task.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::runtime {
namespace {

using Words = std::vector<std::string>;

TrainingTask task_of(const Words& words) {
  return make_task_without_data(parse_options(words));
}

std::string refusal(const Words& words) {
  return tests::message_of<UsageError>([&] { task_of(words); });
}

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

}  // namespace
}  // namespace lockstep::runtime
