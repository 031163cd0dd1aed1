#include "tests/parity/model_files.h"

#include <string_view>

#include "kernels/base/safetensors.h"
#include "tests/parity/golden.h"

namespace lockstep::parity {
namespace {

template <class T>
SafetensorsFile::Tensor view(const std::string& name, DType dtype, const Shape& shape,
                             const std::vector<T>& values) {
  return {.name = name, .dtype = dtype, .shape = shape, .bytes = std::as_bytes(std::span(values))};
}

std::string name_in_formula(const nlohmann::json& model_case, const std::string& tensor) {
  return model_case.at("name").get<std::string>() + "/" + tensor;
}

constexpr std::string_view weight_suffix = ".weight";
constexpr std::string_view mean_suffix = ".running_mean";

/// Of normalisations, whose weights are the only ones with one dimension.
std::vector<NamedTensor> running_statistics(const std::vector<NamedTensor>& weights) {
  std::vector<NamedTensor> statistics;
  for (const NamedTensor& w : weights) {
    if (!w.name.ends_with(weight_suffix) || w.shape.rank() != 1) continue;
    const std::string layer = w.name.substr(0, w.name.size() - weight_suffix.size());
    statistics.push_back({layer + std::string(mean_suffix), w.shape, std::vector<float>(w.values.size(), 0)});
    statistics.push_back({layer + ".running_var", w.shape, std::vector<float>(w.values.size(), 1)});
  }
  return statistics;
}

}  // namespace

std::vector<NamedTensor> formula_weights(const nlohmann::json& model_case) {
  std::vector<NamedTensor> weights;
  for (const auto& parameter : model_case.at("parameters")) {
    const std::string name = parameter.at("name");
    const auto spec = parameter.get<InputSpec>();
    weights.push_back({name, spec.shape, spec.floats(name_in_formula(model_case, name))});
  }
  return weights;
}

void write_formula_weights(const std::filesystem::path& path, const nlohmann::json& model_case) {
  auto weights = formula_weights(model_case);
  for (NamedTensor& statistic : running_statistics(weights)) weights.push_back(std::move(statistic));
  const std::vector<std::int64_t> no_batches{0};
  std::vector<SafetensorsFile::Tensor> tensors;
  for (const NamedTensor& w : weights) {
    tensors.push_back(view(w.name, DType::f32, w.shape, w.values));
    if (!w.name.ends_with(mean_suffix)) continue;
    const std::string layer = w.name.substr(0, w.name.size() - mean_suffix.size());
    tensors.push_back(view(layer + ".num_batches_tracked", DType::i64, {}, no_batches));
  }
  write_safetensors(path, tensors);
}

void write_formula_batch(const std::filesystem::path& path, const nlohmann::json& model_case) {
  const auto inputs = model_case.at("inputs").get<InputSpec>();
  const auto targets = model_case.at("targets").get<InputSpec>();
  const std::string target_name = name_in_formula(model_case, "targets");
  const auto x = inputs.floats(name_in_formula(model_case, "inputs"));
  const auto classes = targets.is_integer() ? targets.integers(target_name) : std::vector<std::int64_t>{};
  const auto values = targets.is_integer() ? std::vector<float>{} : targets.floats(target_name);
  const std::vector<SafetensorsFile::Tensor> tensors{
      view("inputs", DType::f32, inputs.shape, x), targets.is_integer()
                                                       ? view("targets", DType::i64, targets.shape, classes)
                                                       : view("targets", DType::f32, targets.shape, values)};
  write_safetensors(path, tensors);
}

}  // namespace lockstep::parity
