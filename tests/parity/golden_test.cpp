#include "tests/parity/golden.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>

#include "kernels/base/error.h"
#include "kernels/base/safetensors.h"
#include "tests/parity/formula.h"
#include "tests/parity/model_files.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using namespace lockstep::parity;

namespace {

GoldenTensor golden_of(const std::vector<float>& values) {
  return {.shape = {static_cast<std::int64_t>(values.size())}, .digest = digest(values), .rounding = 1e-7};
}

/// Tensors and numbers of PyTorch's in a case.
std::size_t values_in(const nlohmann::json& golden) {
  std::size_t count = golden.contains("distance") ? 1 : 0;
  for (const char* list : {"outputs", "parameters", "rates", "bits", "losses"}) {
    const auto found = golden.find(list);
    // The parameters of an op are its attributes.
    if (found != golden.end() && (found->is_array() || std::string_view(list) == "outputs"))
      count += found->size();
  }
  const auto training = golden.find("training");
  if (training == golden.end()) return count;
  if (training->contains("losses")) return count + values_in(*training);
  for (const auto& optimizer : *training) count += values_in(optimizer);
  return count;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the formula's words are those of FNV-1a and splitmix64") {
  // Published test values: FNV-1a of "a" (Noll); splitmix64 from seed 1234567 (Vigna's reference
  // implementation).
  STATIC_REQUIRE(fnv1a("") == 0xCBF29CE484222325U);
  STATIC_REQUIRE(fnv1a("a") == 0xAF63DC4C8601EC8CU);
  STATIC_REQUIRE(word(1234567, 0) == 6457827717110365317U);
  STATIC_REQUIRE(word(1234567, 1) == 3203168211198807973U);
  STATIC_REQUIRE(word(1234567, 4) == 16408922859458223821U);
}

TEST_CASE("the formula's values are formula.py's to the bit") {
  // Printed by formula.py: uniform("check", [4], 0.3) as hexadecimal floats, integers("check", [6], 10).
  CHECK(uniform("check", 4, 0.3F) == std::vector<float>{0x1.d1b3680000000p-7F, 0x1.2c74cc0000000p-2F,
                                                        0x1.c7de500000000p-3F, 0x1.2725aa0000000p-2F});
  CHECK(integers("check", 6, 10) == std::vector<std::int64_t>{8, 9, 1, 4, 4, 7});
}

TEST_CASE("uniform values lie in [-scale, scale) and fill it") {
  const auto values = uniform("range", 10000, 2.0F);
  const auto [least, greatest] = std::ranges::minmax(values);
  CHECK(least >= -2.0F);
  CHECK(least < -1.99F);
  CHECK(greatest < 2.0F);
  CHECK(greatest > 1.99F);
}

TEST_CASE("a digest is formula.py's") {
  const Digest figures = digest(uniform("check", 1000, 1.0F));
  // Printed by formula.py: digest(uniform("check", [1000])). Both sum a thousand doubles: 1e-12 is ample.
  CHECK(figures.norm == Approx(18.067345800200187).epsilon(1e-12));
  CHECK(figures.sum == Approx(-16.81764042377472).epsilon(1e-12));
  CHECK(figures.projections[0] == Approx(10.971786856651306).epsilon(1e-12));
  CHECK(figures.projections[7] == Approx(2.08600389957428).epsilon(1e-12));
}

TEST_CASE("a tensor equals its own golden, and rounding is forgiven") {
  auto values = uniform("same", 501, 1.0F);
  const GoldenTensor golden = golden_of(values);
  CHECK(difference("same", golden, values).empty());
  for (float& value : values) value = std::nextafter(value, 2.0F);
  CHECK(difference("same", golden, values).empty());
}

TEST_CASE("a difference is found and named") {
  auto values = uniform("other", 501, 1.0F);
  const GoldenTensor golden = golden_of(values);
  SECTION("one element") {
    values[77] += 1e-3F;
    const std::string message = difference("layer.weight", golden, values);
    CHECK(contains(message, "layer.weight: "));
    CHECK(contains(message, "PyTorch's is"));
  }
  SECTION("two elements swapped") {
    std::swap(values[3], values[4]);
    CHECK(contains(difference("w", golden, values), "projection"));
  }
  SECTION("a scale") {
    for (float& value : values) value *= 1.0001F;
    CHECK(contains(difference("w", golden, values), "norm"));
  }
  SECTION("not a number") {
    values[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK(contains(difference("w", golden, values), "nan"));
  }
  SECTION("an element too few") {
    values.pop_back();
    CHECK(contains(difference("w", golden, values), "has 500 elements, PyTorch's has 501"));
  }
}

TEST_CASE("a golden's input follows its spec") {
  const auto relu = nlohmann::json{{"shape", {50}}, {"scale", 1.0}, {"relu", true}}.get<InputSpec>();
  const auto values = relu.floats("x");
  CHECK(std::ranges::count(values, 0.0F) > 10);
  CHECK(std::ranges::min(values) == 0.0F);
  const auto targets = nlohmann::json{{"shape", {6}}, {"classes", 3}, {"ignored", {1, 5}}}.get<InputSpec>();
  const auto classes = targets.integers("t");
  CHECK(std::ranges::count(classes, -100) == 2);
  CHECK(classes[1] == -100);
  CHECK(classes[5] == -100);
}

TEST_CASE("a missing golden file is named") {
  CHECK_THROWS_AS(load_cases("none"), DataError);
}

TEST_CASE("goldens lack no case, and cases nothing to compare with") {
  const std::map<std::string, std::pair<std::size_t, std::size_t>> kinds{
      {"averages", {3, 9}},          {"fifty_steps", {2, 512}}, {"layers", {55, 185}},
      {"mixed_precision", {19, 19}}, {"models", {12, 384}},     {"ops", {39, 112}},
      {"optimizers", {24, 111}},     {"recurrent", {8, 230}},   {"schedules", {9, 216}},
      {"sequences", {6, 386}},       {"vision", {5, 717}},
  };
  for (const auto& [kind, wanted] : kinds) {
    const auto cases = load_cases(kind);
    std::size_t values = 0;
    for (const auto& golden : cases) values += values_in(golden);
    INFO(kind);
    CHECK(cases.size() == wanted.first);
    CHECK(values == wanted.second);
  }
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    CHECK(kinds.contains(entry.path().stem().string()));
  }
}

TEST_CASE("a model's weights and batch are files that its names find") {
  const tests::TemporaryFolder folder;
  const auto models = load_cases("models");
  const auto& mlp = *std::ranges::find(models, "mlp", [](const auto& model) { return model.at("name"); });
  write_formula_weights(folder / "weights.safetensors", mlp);
  write_formula_batch(folder / "batch.safetensors", mlp);

  const SafetensorsFile weights(folder / "weights.safetensors");
  std::vector<std::string> names;
  for (const auto& tensor : weights.tensors()) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"1.weight", "1.bias", "3.weight", "3.bias"});
  CHECK(weights.find("3.weight")->shape == Shape{10, 128});
  const SafetensorsFile batch(folder / "batch.safetensors");
  CHECK(batch.find("inputs")->shape == Shape{8, 1, 28, 28});
  CHECK(batch.find("targets")->dtype == DType::i64);
  const auto first = reinterpret_cast<const float*>(batch.find("inputs")->bytes.data())[0];
  CHECK(first == uniform("mlp/inputs", 1, 1.0F)[0]);
}
