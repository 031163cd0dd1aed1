#include "tests/parity/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "kernels/base/error.h"
#include "tests/parity/formula.h"

namespace lockstep::parity {
namespace {

constexpr double ulp = 0x1p-23;
constexpr double tf32_ulp = 0x1p-10;

Shape shape_from(const nlohmann::json& json) {
  return Shape(json.get<std::vector<std::int64_t>>());
}

/// Also false when either is not a number.
bool within(double got, double want, double bound) {
  return std::abs(got - want) <= bound;
}

std::string report(const std::string& name, const std::string& figure, double got, double want,
                   double bound) {
  return fmt::format("{}: {} is {:.9g}, PyTorch's is {:.9g}, apart by {:.2g}, allowed {:.2g}", name, figure,
                     got, want, std::abs(got - want), bound);
}

}  // namespace

Digest digest(std::span<const float> values) {
  const std::uint64_t seed = fnv1a("projection");
  Digest result;
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const std::uint64_t signs = word(seed, i) >> 56;
    squares += value * value;
    result.sum += value;
    for (std::size_t j = 0; j < result.projections.size(); ++j) {
      result.projections[j] += ((signs >> j) & 1U) != 0 ? value : -value;
    }
  }
  result.norm = std::sqrt(squares);
  return result;
}

double distance(const Digest& a, const Digest& b, std::size_t elements) {
  double squares = 0;
  for (std::size_t j = 0; j < a.projections.size(); ++j) {
    squares += std::pow(a.projections[j] - b.projections[j], 2);
  }
  const double of_projections = std::sqrt(squares / static_cast<double>(a.projections.size()));
  const double of_sums = std::abs(a.sum - b.sum) / std::sqrt(static_cast<double>(elements));
  return std::max({of_projections, std::abs(a.norm - b.norm), of_sums});
}

double GoldenTensor::tolerance() const {
  return std::max(8 * rounding, 8 * (products_are_rounded() ? tf32_ulp : ulp));
}

kernels::MatmulPrecision precision_under_test() {
  const char* name = std::getenv("LOCKSTEP_TEST_PRECISION");
  if (name == nullptr) return kernels::MatmulPrecision::highest;
  const auto& names = kernels::matmul_precision_names;
  const auto found = std::ranges::find(names, std::string_view(name));
  if (found == names.end()) throw UsageError(fmt::format("LOCKSTEP_TEST_PRECISION={} is none", name));
  return static_cast<kernels::MatmulPrecision>(found - names.begin());
}

bool products_are_rounded() {
  return precision_under_test() != kernels::MatmulPrecision::highest;
}

std::string difference(const std::string& name, const GoldenTensor& want, std::span<const float> got,
                       double relative_error) {
  if (static_cast<std::int64_t>(got.size()) != want.shape.elements()) {
    return fmt::format("{}: has {} elements, PyTorch's has {}", name, got.size(), want.shape.str());
  }
  const Digest figures = digest(got);
  const double error = relative_error * want.digest.norm;
  const double root = std::sqrt(static_cast<double>(got.size()));
  if (!within(figures.norm, want.digest.norm, error)) {
    return report(name, "norm", figures.norm, want.digest.norm, error);
  }
  if (!within(figures.sum, want.digest.sum, root * error)) {
    return report(name, "sum", figures.sum, want.digest.sum, root * error);
  }
  const double projection_error = std::min(6.0, root) * error;
  for (std::size_t j = 0; j < figures.projections.size(); ++j) {
    const double projection = figures.projections[j];
    const double expected = want.digest.projections[j];
    if (!within(projection, expected, projection_error)) {
      return report(name, fmt::format("projection {}", j), projection, expected, projection_error);
    }
  }
  return {};
}

std::vector<float> InputSpec::floats(const std::string& name) const {
  auto values = uniform(name, static_cast<std::size_t>(shape.elements()), scale);
  if (start != 0) std::ranges::transform(values, values.begin(), [this](float x) { return x + start; });
  if (relu) std::ranges::transform(values, values.begin(), [](float x) { return std::max(x, 0.0F); });
  return values;
}

std::vector<std::int64_t> InputSpec::integers(const std::string& name) const {
  auto values = parity::integers(name, static_cast<std::size_t>(shape.elements()), classes);
  for (const std::int64_t index : ignored) values.at(static_cast<std::size_t>(index)) = -100;
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * shape[1];
    std::fill(begin + lengths[row], begin + shape[1], -1);
  }
  return values;
}

void from_json(const nlohmann::json& json, Digest& digest) {
  json.at("norm").get_to(digest.norm);
  json.at("sum").get_to(digest.sum);
  json.at("projections").get_to(digest.projections);
}

void from_json(const nlohmann::json& json, GoldenTensor& tensor) {
  tensor.shape = shape_from(json.at("shape"));
  json.get_to(tensor.digest);
  json.at("rounding").get_to(tensor.rounding);
}

void from_json(const nlohmann::json& json, InputSpec& spec) {
  spec.shape = shape_from(json.at("shape"));
  spec.scale = json.value("scale", 1.0F);
  spec.start = json.value("start", 0.0F);
  spec.relu = json.value("relu", false);
  spec.classes = json.value("classes", std::int64_t{0});
  spec.ignored = json.value("ignored", std::vector<std::int64_t>{});
  spec.lengths = json.value("lengths", std::vector<std::int64_t>{});
}

std::string golden_folder() {
  const char* elsewhere = std::getenv("LOCKSTEP_GOLDENS");
  return elsewhere != nullptr ? elsewhere : GOLDENS;
}

nlohmann::json load_cases(const std::string& kind) {
  const std::string path = golden_folder() + "/" + kind + ".json";
  std::ifstream file(path);
  if (!file) throw DataError(path + ": cannot be opened; write it with tests/parity/make_goldens.py");
  return nlohmann::json::parse(file).at("cases");
}

}  // namespace lockstep::parity
