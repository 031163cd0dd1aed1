#include "data/datasets.h"

#include <cstdlib>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::data;
using namespace lockstep::tests;

namespace {

struct Sample {
  std::vector<float> input;
  std::int64_t label = -1;
};

Sample sample_of(const Dataset& set, std::int64_t index) {
  Sample sample;
  sample.input.resize(static_cast<std::size_t>(set.spec().input_shape.elements()));
  set.get(index, 0, std::as_writable_bytes(std::span(sample.input)),
          std::as_writable_bytes(std::span(&sample.label, 1)));
  return sample;
}

DatasetOptions synthetic(const Shape& image_shape, std::int64_t num_classes) {
  return {.name = "synthetic",
          .data_dir = {},
          .samples = 2000,
          .image_shape = image_shape,
          .num_classes = num_classes,
          .target_shape = {},
          .seed = 3};
}

std::string tensors_complaint(std::vector<SafetensorsFile::Tensor> tensors) {
  const TemporaryFolder folder;
  const std::string path = (folder / "file.safetensors").string();
  write_safetensors(path, tensors);
  const std::string message =
      message_of<DataError>([&] { open_dataset({.name = "tensors", .data_dir = path}, Split::train); });
  return message.substr(std::min(message.size(), path.size() + 2));
}

}  // namespace

TEST_CASE("a fingerprint changes with the number, the shape and the contents of samples") {
  const auto fingerprint = [](DatasetOptions options) {
    return fingerprint_of(*open_dataset(options, Split::train));
  };
  const DatasetOptions options = synthetic({3, 8, 8}, 10);
  DatasetOptions other = options;
  CHECK(fingerprint(other) == fingerprint(options));
  other.seed = 4;
  CHECK(fingerprint(other) != fingerprint(options));
  other = options;
  other.samples = 1999;
  CHECK(fingerprint(other) != fingerprint(options));
  other.samples = 1;
  CHECK(fingerprint(other).size() == 16);
  CHECK(fingerprint(synthetic({8, 8, 3}, 10)) != fingerprint(options));
}

TEST_CASE("an unknown data set names its nearest") {
  CHECK(message_of<UsageError>([] { open_dataset({.name = "fashon-mnist"}, Split::train); }) ==
        "unknown dataset 'fashon-mnist', did you mean 'fashion-mnist'? `trainer datasets` lists them");
  CHECK(message_of<UsageError>([] { dataset_spec({.name = "fashon-mnist"}); }) ==
        "unknown dataset 'fashon-mnist', did you mean 'fashion-mnist'? `trainer datasets` lists them");
}

TEST_CASE("data sets are listed, and their samples known before a file is opened") {
  CHECK(datasets().size() == 11);
  CHECK(dataset_spec({.name = "fashion-mnist", .data_dir = "/nowhere"}).input_shape == Shape{1, 28, 28});
  CHECK(dataset_spec(synthetic({3, 8, 8}, 5)).num_classes == 5);
}

TEST_CASE("data sets that need files say so") {
  ChildProcess without_downloads([] {
    ::setenv("XDG_CACHE_HOME", "/nowhere", 1);
    const std::string said = message_of<UsageError>([] { open_dataset({.name = "mnist"}, Split::train); });
    return said == "mnist: give the folder of its four IDX files by --data-dir, or fetch them by --download"
               ? 0
               : 1;
  });
  CHECK(without_downloads.wait() == 0);
  CHECK(message_of<UsageError>([] { dataset_spec({.name = "tensors"}); }) ==
        "tensors: give the file by --data-dir FILE.safetensors");
  CHECK(message_of<DataError>(
            [] { open_dataset({.name = "fashion-mnist", .data_dir = "/nowhere"}, Split::test); }) ==
        "/nowhere/t10k-images-idx3-ubyte: neither this file nor its .gz is there; apt install "
        "dataset-fashion-mnist, give its folder by --data-dir, or fetch it by --download");
}

TEST_CASE("data that cannot be looked at are an error of ours, with their path") {
  const TemporaryFolder folder;
  const std::filesystem::path circle = folder / "circle";  // nothing tells what is there
  std::filesystem::create_symlink(circle, circle);
  for (const char* name :
       {"mnist", "cifar10", "image-folder", "shards", "text", "tokens", "labelled-text", "parallel-text"}) {
    INFO(name);
    const std::string said =
        message_of<DataError>([&] { open_dataset({.name = name, .data_dir = circle}, Split::train); });
    CHECK(said.starts_with(circle.string()));
    CHECK_THAT(said, contains(": cannot be reached: "));
  }
}

TEST_CASE("Fashion-MNIST is as published") {
  const DatasetPtr train = open_dataset({.name = "fashion-mnist"}, Split::train);
  const DatasetPtr test = open_dataset({.name = "fashion-mnist"}, Split::test);
  REQUIRE(train->size() == 60000);
  REQUIRE(test->size() == 10000);
  CHECK(sample_of(*train, 0).label == 9);
  CHECK(sample_of(*test, 0).label == 9);
  double sum = 0;
  for (std::int64_t i = 0; i < train->size(); ++i) {
    for (const float pixel : sample_of(*train, i).input) sum += static_cast<double>(pixel);
  }
  // The mean that everyone normalises with.
  CHECK(sum / (60000.0 * 784) == Approx(0.2860).margin(0.00005));
}

TEST_CASE("a synthetic sample depends on seed, split and index alone") {
  const DatasetOptions options = synthetic({3, 9, 9}, 10);
  const DatasetPtr train = open_dataset(options, Split::train);
  const Sample sample = sample_of(*train, 17);
  CHECK(sample_of(*train, 17).input == sample.input);
  CHECK(sample_of(*open_dataset(options, Split::train), 17).input == sample.input);
  CHECK(sample_of(*open_dataset(options, Split::test), 17).input != sample.input);
  DatasetOptions reseeded = options;
  reseeded.seed = 4;
  CHECK(sample_of(*open_dataset(reseeded, Split::train), 17).input != sample.input);
  CHECK(train->size() == 2000);
}

TEST_CASE("synthetic inputs are standard normal and their classes even") {
  const DatasetPtr set = open_dataset(synthetic({100}, 5), Split::train);
  std::vector<int> labels(5);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    const Sample sample = sample_of(*set, i);
    ++labels.at(static_cast<std::size_t>(sample.label));
    for (const double value : sample.input) {
      sum += value;
      squares += value * value;
    }
  }
  const double count = 100.0 * static_cast<double>(set->size());
  CHECK(sum / count == Approx(0).margin(0.2));  // the patterns of the classes, 0.3 / sqrt(5 x 16), and more
  CHECK(squares / count == Approx(1).margin(0.1));
  for (const int samples : labels) CHECK(std::abs(samples - 400) < 6 * 18);  // six standard deviations
}

TEST_CASE("synthetic classes can be learned from the mean of each class") {
  const DatasetPtr train = open_dataset(synthetic({1, 8, 8}, 4), Split::train);
  std::vector<std::vector<double>> means(4, std::vector<double>(64));
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const Sample sample = sample_of(*train, i);
    for (std::size_t k = 0; k < 64; ++k)
      means[static_cast<std::size_t>(sample.label)][k] += sample.input[k] / 500.0;
  }
  const DatasetPtr test = open_dataset(synthetic({1, 8, 8}, 4), Split::test);
  int right = 0;
  for (std::int64_t i = 0; i < test->size(); ++i) {
    const Sample sample = sample_of(*test, i);
    std::vector<double> scores;
    for (const auto& mean : means) {
      double score = 0;
      for (std::size_t k = 0; k < 64; ++k) score += mean[k] * (sample.input[k] - mean[k] / 2);
      scores.push_back(score);
    }
    right += std::max_element(scores.begin(), scores.end()) - scores.begin() == sample.label;
  }
  CHECK(right > 1400);  // of 2000; chance is 500
}

TEST_CASE("synthetic inputs may be larger than the pool, and classes more than its parts") {
  const DatasetPtr large = open_dataset(synthetic({3, 400, 400}, 10), Split::train);
  const Sample sample = sample_of(*large, 1);
  CHECK(sample.input[(1 << 18) + 5] == sample.input[5]);
  const DatasetPtr many = open_dataset(synthetic({16}, 100000), Split::train);
  for (std::int64_t i = 0; i < 100; ++i) CHECK(sample_of(*many, i).label < 100000);
}

TEST_CASE("synthetic regression is a linear function with little noise") {
  DatasetOptions options = synthetic({10}, 0);
  options.target_shape = {1};
  const DatasetPtr set = open_dataset(options, Split::train);
  CHECK(set->spec().target_dtype == DType::f32);
  // Stochastic descent on the ten weights must reach the noise.
  std::vector<double> weights(10);
  double error = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    std::vector<float> input(10);
    float target = 0;
    set->get(i, 0, std::as_writable_bytes(std::span(input)), std::as_writable_bytes(std::span(&target, 1)));
    double prediction = 0;
    for (std::size_t k = 0; k < 10; ++k) prediction += weights[k] * input[k];
    error = prediction - target;
    for (std::size_t k = 0; k < 10; ++k) weights[k] -= 0.03 * error * input[k];
  }
  CHECK(std::abs(error) < 0.1);
}

TEST_CASE("bad synthetic options are refused") {
  CHECK(message_of<UsageError>([] {
          open_dataset(synthetic({3, 0, 8}, 10), Split::train);
        }) == "synthetic: shape 3x0x8 has no elements");
  CHECK(message_of<UsageError>([] { open_dataset(synthetic({3}, -1), Split::train); }) ==
        "synthetic: -1 classes: give --num-classes 0 or more");
}

TEST_CASE("tensors of a file are samples") {
  const TemporaryFolder folder;
  std::vector<float> inputs{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> targets{0, 6, 2};
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", DType::f32, {3, 2}, std::as_bytes(std::span(inputs))},
      {"targets", DType::i64, {3}, std::as_bytes(std::span(targets))}};
  write_safetensors(folder / "file", tensors);
  const DatasetOptions options{.name = "tensors", .data_dir = folder / "file"};
  const DatasetPtr set = open_dataset(options, Split::test);
  REQUIRE(set->size() == 3);
  CHECK(set->spec().num_classes == 10);  // not the greatest label's
  CHECK(dataset_spec(options).input_shape == Shape{2});
  CHECK(sample_of(*set, 1).input == std::vector<float>{3, 4});
  CHECK(sample_of(*set, 1).label == 6);
}

TEST_CASE("inputs of a file keep their dtype and come to the byte") {
  const DType dtype =
      GENERATE(DType::f32, DType::bf16, DType::f16, DType::u8, DType::u16, DType::i32, DType::i64);
  const TemporaryFolder folder;
  std::vector<std::byte> inputs(3 * 2 * size_of(dtype));
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<std::byte>(i + 1);
  std::vector<std::int64_t> targets{0, 1, 1};
  const std::vector<SafetensorsFile::Tensor> tensors{
      {"inputs", dtype, {3, 2}, inputs}, {"targets", DType::i64, {3}, std::as_bytes(std::span(targets))}};
  write_safetensors(folder / "file", tensors);
  const DatasetPtr set = open_dataset({.name = "tensors", .data_dir = folder / "file"}, Split::train);
  CHECK(set->spec().input_dtype == dtype);
  const std::size_t row = 2 * size_of(dtype);
  REQUIRE(set->spec().input_bytes() == row);
  std::vector<std::byte> sample(row);
  std::int64_t target = -1;
  set->get(1, 0, sample, std::as_writable_bytes(std::span(&target, 1)));
  CHECK(std::equal(sample.begin(), sample.end(), inputs.begin() + static_cast<std::ptrdiff_t>(row)));
}

TEST_CASE("a class of -100 in tensors does not count; every split of them is the whole file") {
  const TemporaryFolder folder;
  const std::vector<float> inputs(3);
  const std::vector<std::int64_t> targets{1, -100, 0};
  write_safetensors(folder / "file", std::vector<SafetensorsFile::Tensor>{
                                         {"inputs", DType::f32, {3}, std::as_bytes(std::span(inputs))},
                                         {"targets", DType::i64, {3}, std::as_bytes(std::span(targets))}});
  const DatasetOptions options{.name = "tensors", .data_dir = folder / "file"};
  const DatasetPtr set = open_dataset(options, Split::train);
  CHECK(sample_of(*set, 1).label == -100);
  for (const std::int64_t sample : {0, 1, 2}) CHECK(set->valid_targets(sample, 0) == (sample == 1 ? 0 : 1));
  CHECK_THAT(find_dataset(datasets(), "tensors").note(options),
             contains("evaluated are the samples that are trained on"));
}

TEST_CASE("tensors that are no data set are refused") {
  std::vector<float> values(4);
  std::vector<std::int64_t> labels{1, -2, 0, 1};
  const auto of = [](auto& data) { return std::as_bytes(std::span(data)); };
  const SafetensorsFile::Tensor inputs{"inputs", DType::f32, {4}, of(values)};
  CHECK(tensors_complaint({inputs}) == "there is no tensor 'targets'");
  CHECK(tensors_complaint({inputs, {"targets", DType::i64, {4}, of(labels)}}) ==
        "targets[1] is -2, no class below num_classes 10, nor -100 (none)");
  labels[1] = std::numeric_limits<std::int64_t>::max();
  CHECK(
      tensors_complaint({inputs, {"targets", DType::i64, {4}, of(labels)}}) ==
      "targets[1] is 9223372036854775807, no class below num_classes 10; --model-args num_classes=N says how "
      "many there are");
  labels[1] = 9;
  CHECK(tensors_complaint({inputs, {"targets", DType::i64, {4}, of(labels)}}) == "");
  std::vector<std::int64_t> none(4, no_class);
  CHECK(tensors_complaint({inputs, {"targets", DType::i64, {4}, of(none)}}) ==
        "all targets are -100 (none): there is nothing to learn");
  CHECK(tensors_complaint({inputs, {"targets", DType::i64, {2}, of(labels).first(16)}}) ==
        "4 inputs, but 2 targets");
  CHECK(tensors_complaint({inputs, {"targets", DType::i32, {8}, of(labels)}}) ==
        "'targets' is i32, which cannot be used; save it as i64");
  CHECK(tensors_complaint({inputs, {"targets", DType::f32, {}, of(values).first(4)}}) ==
        "'targets' (scalar) holds no samples");
}
