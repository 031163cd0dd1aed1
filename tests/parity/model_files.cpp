#include "tests/parity/model_files.h"

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
  const auto weights = formula_weights(model_case);
  std::vector<SafetensorsFile::Tensor> tensors;
  for (const NamedTensor& w : weights) tensors.push_back(view(w.name, DType::f32, w.shape, w.values));
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
