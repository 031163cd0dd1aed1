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

/// Floats or integers, as the golden says.
class FormulaTensor {
 public:
  FormulaTensor(const nlohmann::json& model_case, const std::string& name)
      : name_(name), spec_(model_case.at(name).get<InputSpec>()) {
    if (spec_.is_integer()) {
      integers_ = spec_.integers(name_in_formula(model_case, name));
    } else {
      floats_ = spec_.floats(name_in_formula(model_case, name));
    }
  }

  SafetensorsFile::Tensor tensor() const {
    return spec_.is_integer() ? view(name_, DType::i64, spec_.shape, integers_)
                              : view(name_, DType::f32, spec_.shape, floats_);
  }

 private:
  std::string name_;
  InputSpec spec_;
  std::vector<std::int64_t> integers_;
  std::vector<float> floats_;
};

constexpr std::string_view weight_suffix = ".weight";
constexpr std::string_view mean_suffix = ".running_mean";

/// Of batch norms, whose weights are the only ones with one dimension in a model of pictures.
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
  const bool of_pictures = model_case.contains("inputs") && !model_case.at("inputs").contains("classes");
  if (of_pictures) {
    for (NamedTensor& statistic : running_statistics(weights)) weights.push_back(std::move(statistic));
  }
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
  std::vector<FormulaTensor> of_case;
  for (const char* name : {"inputs", "src", "tgt", "targets"}) {
    if (model_case.contains(name)) of_case.emplace_back(model_case, name);
  }
  std::vector<SafetensorsFile::Tensor> tensors;
  for (const FormulaTensor& tensor : of_case) tensors.push_back(tensor.tensor());
  write_safetensors(path, tensors);
}

}  // namespace lockstep::parity
