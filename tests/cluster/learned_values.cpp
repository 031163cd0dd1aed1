// trainer eval and trainer predict for models that learned values: the weights tell so, also where samples
// have no targets.
#include "tests/cluster/recurrent_states.h"

namespace lockstep::tests {
namespace {

constexpr std::int64_t rows = 16;
constexpr std::int64_t length = 6;
constexpr std::int64_t features = 3;

SafetensorsFile::Tensor floats(const char* name, const Shape& shape, const std::vector<float>& values) {
  const auto elements = static_cast<std::size_t>(shape.elements());
  return {name, DType::f32, shape, std::as_bytes(std::span(values).first(elements))};
}

std::vector<float> random_floats(std::uint64_t stream) {
  std::vector<float> values(rows * length * features);
  Philox(1, stream).normals(0, values);
  return values;
}

struct Case {
  const char* name;
  Words model;
  SafetensorsFile::Tensor inputs;
  Shape targets;
  std::string kept;  ///< in the metadata of the weights
};

std::string metadata_of(const std::filesystem::path& weights, const std::string& key) {
  const auto metadata = SafetensorsFile(weights).metadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

}  // namespace

TEST_CASE("what was learned as values is predicted and scored as values, of whatever shape they are") {
  const std::vector<float> numbers = random_floats(1);
  const std::vector<float> values = random_floats(2);
  std::vector<std::int64_t> ids(rows * length);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = Philox(3, 4).below(9, i);
  const auto sequences_of_numbers = floats("inputs", {rows, length, features}, numbers);
  const auto tokens = tensor("inputs", {rows, length}, ids);
  const Words rnn{"--model=rnn", "--model-args=hidden=8"};
  const Words rnn_all{"--model=rnn", "--model-args=hidden=8,output=all"};
  const Words lstm{"--model=lstm", "--model-args=embedding=6,hidden=8,layers=1"};
  for (const Case& of :
       {Case{"one", rnn, sequences_of_numbers, {rows, 1}, "[1]"},
        Case{"steps", rnn_all, sequences_of_numbers, {rows, length}, "[6]"},
        Case{"lstm", lstm, sequences_of_numbers, {rows, 1}, "[1]"},
        Case{"tokens", lstm, tokens, {rows, 1}, "[1]"},
        Case{"linear", {"--model=linear"}, floats("inputs", {rows, 10}, numbers), {rows, 3}, "[3]"}}) {
    INFO(of.name);
    const TemporaryFolder folder;
    const auto given =
        file_of(folder, "given.safetensors", {of.inputs, floats("targets", of.targets, values)});
    const auto seen = file_of(folder, "seen.safetensors", {of.inputs});
    const auto run = folder / "run";
    const auto trained =
        train(1, of.model + data_in(given) + Words{"--threads=1", "--batch-size=8", "--max-steps=2"}, run);
    CHECK(metadata_of(run / "model.safetensors", "values_shape") == of.kept);
    const auto scores = lines_of(output_of(1, {"eval", run.string()})).at(0);
    CHECK(scores["loss"].get<double>() == Approx(trained["eval"]["loss"].get<double>()).epsilon(1e-6));

    const auto own = lines_of(output_of(1, {"predict", run.string()}));
    REQUIRE(own.size() == static_cast<std::size_t>(rows));
    CHECK(own.at(0)["values"].size() == static_cast<std::size_t>(of.targets.elements() / rows));
    CHECK(lines_of(output_of(1, {"predict", run.string(), "--data-dir", seen})) == own);
    const Words of_file =
        Words{"predict", (run / "model.safetensors").string(), "--data-dir", seen, "--batch-size=8"} +
        of.model;
    CHECK(lines_of(output_of(1, of_file)) == own);
  }
}

TEST_CASE("values of each step are as many as the sequences to be predicted have") {
  const TemporaryFolder folder;
  const std::vector<float> numbers = random_floats(1);
  const std::vector<float> values = random_floats(2);
  const auto inputs = floats("inputs", {rows, length, features}, numbers);
  const auto given =
      file_of(folder, "given.safetensors", {inputs, floats("targets", {rows, length, 2}, values)});
  const std::string run = (folder / "run").string();
  train(1,
        Words{"--model=rnn", "--model-args=hidden=8,output=all", "--threads=1", "--max-steps=1",
              "--eval-every=0"} +
            data_in(given),
        run);
  const auto seen = file_of(folder, "seen.safetensors", {inputs});
  CHECK(contents(predicted(folder, "of_seen", 1, {run, "--data-dir", seen})) ==
        contents(predicted(folder, "of_own", 1, {run})));
  const auto shorter =
      file_of(folder, "shorter.safetensors", {floats("inputs", {rows, 4, features}, numbers)});
  const auto lines = lines_of(output_of(1, {"predict", run, "--data-dir", shorter}));
  REQUIRE(lines.size() == static_cast<std::size_t>(rows));
  for (const auto& line : lines) CHECK(line["values"].size() == 4 * 2);
}

TEST_CASE("an lstm that learned classes of sequences of numbers is scored by as many as it knows") {
  const TemporaryFolder folder;
  const std::vector<float> numbers = random_floats(1);
  std::vector<std::int64_t> classes(rows);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i % 3);
  const auto given =
      file_of(folder, "given.safetensors",
              {floats("inputs", {rows, length, features}, numbers), tensor("targets", {rows}, classes)});
  const auto run = folder / "run";
  train(1,
        Words{"--model=lstm", "--model-args=hidden=8,layers=1", "--threads=1", "--max-steps=1"} +
            data_in(given),
        run);
  CHECK(metadata_of(run / "model.safetensors", "values_shape").empty());
  CHECK(lines_of(output_of(1, {"eval", run.string()})).at(0)["samples"] == rows);
  CHECK(lines_of(output_of(1, {"predict", run.string()})).at(0).contains("class"));
}

}  // namespace lockstep::tests
