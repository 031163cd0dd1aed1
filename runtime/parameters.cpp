#include "runtime/parameters.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "kernels/base/safetensors.h"
#include "kernels/base/sha256.h"
#include "kernels/dispatch.h"
#include "kernels/reorder.h"

namespace lockstep::runtime {
namespace {

/// Between a row-major host copy and the arena's layout, by the same reorder kernel that plans use.
void convert(kernels::Device& device, const kernels::TensorDesc& from, void* source,
             const kernels::TensorDesc& to, void* target) {
  const kernels::KernelPtr kernel =
      kernels::prepare(device, kernels::Reorder{}, {.inputs = {from}, .outputs = {to}});
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  void* const args[] = {source, target};
  const auto stream = device.make_stream();
  kernel->bind(args, workspace->data())->launch(*stream);
  stream->synchronize();
}

kernels::TensorDesc stored(const model::Value& value) {
  return {.dtype = value.type.dtype, .shape = value.type.shape, .layout = value.layout};
}

kernels::TensorDesc row_major(const model::Value& value) {
  return {.dtype = value.type.dtype,
          .shape = value.type.shape,
          .layout = kernels::Layout::plain(value.type.shape)};
}

const SafetensorsFile::Tensor& matching_tensor(const SafetensorsFile& file, const std::filesystem::path& path,
                                               const std::string& name, const Shape& shape) {
  const SafetensorsFile::Tensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw DataError(fmt::format("{}: has no tensor '{}', which the model needs", path.string(), name));
  }
  if (tensor->dtype != DType::f32 || tensor->shape != shape) {
    throw DataError(fmt::format("{}: tensor '{}' is {} {}, the model needs f32 {}", path.string(), name,
                                name_of(tensor->dtype), tensor->shape.str(), shape.str()));
  }
  return *tensor;
}

}  // namespace

void ParameterAccess::initialise(std::uint64_t seed) {
  const auto& parameters = plan_.graph.parameters();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    std::vector<float> values(static_cast<std::size_t>(parameters[index].file_shape.elements()));
    Philox(seed, index).uniforms(0, values);
    const float bound = parameters[index].initializer.bound;
    for (float& value : values) value = (2 * value - 1) * bound;
    write(parameters[index], values);
  }
}

void ParameterAccess::load(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto& parameters = plan_.graph.parameters();
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    const bool known = std::ranges::any_of(parameters, [&](const model::Parameter& p) {
      return plan_.graph.value(p.value).name == tensor.name;
    });
    if (!known) {
      throw DataError(fmt::format("{}: tensor '{}' is none of the model's", path.string(), tensor.name));
    }
  }
  for (const model::Parameter& parameter : parameters) {
    const std::string& name = plan_.graph.value(parameter.value).name;
    const auto& tensor = matching_tensor(file, path, name, parameter.file_shape);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    write(parameter, values);
  }
}

std::vector<NamedTensor> ParameterAccess::parameters() const {
  return read(false);
}
std::vector<NamedTensor> ParameterAccess::gradients() const {
  return read(true);
}

void ParameterAccess::write(const model::Parameter& parameter, const std::vector<float>& values) {
  const model::Value& value = plan_.graph.value(parameter.value);
  const auto staging = device_.allocate(values.size() * sizeof(float));
  const auto stream = device_.make_stream();
  device_.copy_to_device(staging->data(), values.data(), values.size() * sizeof(float), *stream);
  convert(device_, row_major(value), staging->data(), stored(value), memory_.parameter(value.name));
}

std::vector<NamedTensor> ParameterAccess::read(bool gradients) const {
  std::vector<NamedTensor> tensors;
  for (const model::Parameter& parameter : plan_.graph.parameters()) {
    const model::Value& value = plan_.graph.value(parameter.value);
    NamedTensor& tensor =
        tensors.emplace_back(NamedTensor{.name = value.name, .shape = parameter.file_shape, .values = {}});
    tensor.values.resize(static_cast<std::size_t>(tensor.shape.elements()));
    const std::size_t bytes = tensor.values.size() * sizeof(float);
    const auto staging = device_.allocate(bytes);
    void* source = gradients ? memory_.gradient(value.name) : memory_.parameter(value.name);
    convert(device_, stored(value), source, row_major(value), staging->data());
    const auto stream = device_.make_stream();
    device_.copy_to_host(tensor.values.data(), staging->data(), bytes, *stream);
    stream->synchronize();
  }
  return tensors;
}

void save_tensors(const std::filesystem::path& file, const std::vector<NamedTensor>& tensors) {
  std::vector<SafetensorsFile::Tensor> entries;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = DType::f32,
                       .shape = tensor.shape,
                       .bytes = std::as_bytes(std::span(tensor.values))});
  }
  write_safetensors(file, entries, {{"format", "pt"}});
}

std::string sha256_of(const std::vector<NamedTensor>& tensors) {
  Sha256 hash;
  for (const NamedTensor& tensor : tensors) hash.update(std::as_bytes(std::span(tensor.values)));
  return hash.hex();
}

}  // namespace lockstep::runtime
