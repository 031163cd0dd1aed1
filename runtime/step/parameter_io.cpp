#include "runtime/step/parameter_io.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/hash.h"
#include "kernels/base/philox.h"
#include "kernels/base/safetensors.h"
#include "kernels/dispatch.h"
#include "kernels/reorder.h"
#include "runtime/plan/bucket.h"

namespace lockstep::runtime {
namespace {

/// Between a row-major host copy and the arena's layout, by the same reorder kernel that plans use.
void convert(kernels::Device& device, kernels::Stream& stream, const kernels::TensorDesc& from, void* source,
             const kernels::TensorDesc& to, void* target) {
  const kernels::KernelPtr kernel =
      kernels::kernel_for(device, kernels::Reorder{}, {.inputs = {from}, .outputs = {to}});
  const auto workspace = device.allocate(std::max<std::size_t>(kernel->workspace_bytes(), 64));
  void* const args[] = {source, target};
  kernel->bind(args, workspace->data())->launch(stream);
  stream.synchronize();
}

kernels::TensorDesc row_major(const model::Value& value) {
  return {.dtype = value.type.dtype,
          .shape = value.type.shape,
          .layout = kernels::Layout::row_major(value.type.shape)};
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

std::size_t staged_bytes(const Plan& plan, const model::OptimizerOptions& optimizer) {
  std::int64_t elements = 0;
  for (const model::Parameter& parameter : plan.graph.parameters()) {
    elements += parameter.file_shape.elements();
  }
  return static_cast<std::size_t>(elements) * sizeof(float) * (1 + model::state_names(optimizer).size()) +
         plan.arena.buffer_bytes();
}

std::vector<ParameterIO::ParameterSlot> ParameterIO::parameter_slots() const {
  std::vector<ParameterSlot> slots;
  for (const model::Parameter& parameter : plan_.graph.parameters()) {
    const std::string& name = plan_.graph.value(parameter.value).name;
    slots.push_back({name, parameter.value, parameter.file_shape, memory_.parameter(name)});
  }
  return slots;
}

std::vector<ParameterIO::ParameterSlot> ParameterIO::buffer_slots() const {
  std::vector<ParameterSlot> slots;
  for (const BufferSlice& slice : plan_.arena.buffers) {
    const model::ValueId id = plan_.graph.buffers()[slice.buffer].value;
    slots.push_back({slice.name, id, plan_.graph.value(id).type.shape, memory_.buffer(slice)});
  }
  return slots;
}

std::vector<ParameterIO::ParameterSlot> ParameterIO::weight_slots() const {
  std::vector<ParameterSlot> slots = parameter_slots();
  for (ParameterSlot& slot : buffer_slots()) slots.push_back(std::move(slot));
  return slots;
}

std::vector<ParameterIO::ParameterSlot> ParameterIO::optimizer_slots(
    const model::OptimizerOptions& optimizer) const {
  const std::vector<std::string> states = model::state_names(optimizer);
  std::vector<ParameterSlot> slots;
  for (const model::Parameter& parameter : plan_.graph.parameters()) {
    const std::string& name = plan_.graph.value(parameter.value).name;
    for (std::size_t i = 0; i < states.size(); ++i) {
      slots.push_back(
          {name + "." + states[i], parameter.value, parameter.file_shape, memory_.optimizer_state(i, name)});
    }
  }
  return slots;
}

void ParameterIO::initialise(std::uint64_t seed) {
  const std::vector<ParameterSlot> slots = parameter_slots();
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const model::Parameter& parameter = plan_.graph.parameters()[index];
    std::vector<float> values(static_cast<std::size_t>(parameter.file_shape.elements()));
    Philox(seed, index).uniforms(0, values);
    const auto [bound, start] = parameter.initializer;
    for (float& value : values) value = start + (2 * value - 1) * bound;
    write(slots[index], values);
  }
  const std::vector<ParameterSlot> buffers = buffer_slots();
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    const auto count = static_cast<std::size_t>(buffers[index].file_shape.elements());
    write(buffers[index], std::vector<float>(count, plan_.graph.buffers()[index].start));
  }
}

void ParameterIO::load(const std::filesystem::path& file) {
  load(file, weight_slots());
}

void ParameterIO::load_optimizer_state(const std::filesystem::path& file,
                                       const model::OptimizerOptions& optimizer) {
  load(file, optimizer_slots(optimizer));
}

void ParameterIO::load(const std::filesystem::path& path, const std::vector<ParameterSlot>& slots) {
  const SafetensorsFile file(path);
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (std::ranges::find(slots, tensor.name, &ParameterSlot::name) == slots.end()) {
      throw DataError(fmt::format("{}: tensor '{}' is none of the model's", path.string(), tensor.name));
    }
  }
  for (const ParameterSlot& slot : slots) {
    const auto& tensor = matching_tensor(file, path, slot.name, slot.file_shape);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    write(slot, values);
  }
}

void ParameterIO::write(const ParameterSlot& slot, std::span<const float> values) {
  const model::Value& value = plan_.graph.value(slot.value);
  const auto staging = device_.allocate(values.size_bytes());
  const auto stream = device_.make_stream();
  device_.copy_to_device(staging->data(), values.data(), values.size_bytes(), *stream);
  convert(device_, *stream, row_major(value), staging->data(), stored(value), slot.data);
}

std::int64_t ParameterIO::applied_updates() const {
  kernels::StepState state;
  const auto stream = device_.make_stream();
  device_.copy_to_host(&state, memory_.step_state(), sizeof(state), *stream);
  stream->synchronize();
  return state.applied_updates();
}

void ParameterIO::set_applied_updates(std::int64_t count) {
  const kernels::StepState state{.step = count};
  const auto stream = device_.make_stream();
  device_.copy_to_device(memory_.step_state(), &state, sizeof(state), *stream);
  stream->synchronize();
}

std::vector<NamedTensor> ParameterIO::parameters() const {
  std::vector<NamedTensor> tensors;
  parameters(tensors);
  return tensors;
}

void ParameterIO::parameters(std::vector<NamedTensor>& into) const {
  read(weight_slots(), into);
}

std::vector<NamedTensor> ParameterIO::gradients() const {
  std::vector<ParameterSlot> slots = parameter_slots();
  for (ParameterSlot& slot : slots) slot.data = memory_.gradient(slot.name);
  std::vector<NamedTensor> tensors;
  read(slots, tensors);
  return tensors;
}

std::vector<NamedTensor> ParameterIO::optimizer_state(const model::OptimizerOptions& optimizer) const {
  std::vector<NamedTensor> tensors;
  optimizer_state(optimizer, tensors);
  return tensors;
}

void ParameterIO::optimizer_state(const model::OptimizerOptions& optimizer,
                                  std::vector<NamedTensor>& into) const {
  read(optimizer_slots(optimizer), into);
}

void ParameterIO::read(const std::vector<ParameterSlot>& slots, std::vector<NamedTensor>& into) const {
  into.resize(slots.size());
  const auto stream = device_.make_stream();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const ParameterSlot& slot = slots[i];
    const model::Value& value = plan_.graph.value(slot.value);
    NamedTensor& tensor = into[i];
    tensor.name = slot.name;
    tensor.shape = slot.file_shape;
    tensor.values.resize(static_cast<std::size_t>(tensor.shape.elements()));
    const std::size_t bytes = tensor.values.size() * sizeof(float);
    const auto staging = device_.allocate(bytes);
    convert(device_, *stream, stored(value), slot.data, row_major(value), staging->data());
    device_.copy_to_host(tensor.values.data(), staging->data(), bytes, *stream);
    stream->synchronize();
  }
}

std::string ParameterIO::fingerprint() const {
  const std::span<const std::byte> arena = memory_.parameters();
  std::vector<std::byte> piece(std::min<std::size_t>(arena.size(), std::size_t{1} << 20));
  const auto stream = device_.make_stream();
  Sha256 hash;
  for (std::size_t at = 0; at < arena.size(); at += piece.size()) {
    const std::size_t count = std::min(piece.size(), arena.size() - at);
    device_.copy_to_host(piece.data(), arena.data() + at, count, *stream);
    stream->synchronize();
    hash.update(std::span(piece).first(count));
  }
  return hash.hex();
}

void save_tensors(const std::filesystem::path& file, std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsFile::Tensor> entries;
  for (const NamedTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = DType::f32,
                       .shape = tensor.shape,
                       .bytes = std::as_bytes(std::span(tensor.values))});
  }
  write_safetensors(file, entries, {{"format", "pt"}});
}

std::string first_not_finite(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    // A product with 0 is a NaN for what is not finite, and the sum keeps it: one pass, which vectorises.
    float sum = 0;
    for (const float value : tensor.values) sum += value * 0;
    if (std::isnan(sum)) return tensor.name;
  }
  return {};
}

std::string sha256_of(const std::vector<NamedTensor>& tensors) {
  Sha256 hash;
  for (const NamedTensor& tensor : tensors) hash.update(std::as_bytes(std::span(tensor.values)));
  return hash.hex();
}

}  // namespace lockstep::runtime
