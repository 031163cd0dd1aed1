#include "runtime/weights/parameter_io.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/base/hash.h"
#include "kernels/base/philox.h"
#include "kernels/base/typed_words.h"
#include "kernels/cast.h"
#include "kernels/dispatch.h"
#include "kernels/reorder.h"
#include "runtime/plan/file_layout.h"
#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

/// To another layout or type, by the same kernels that plans use.
template <class Op>
void convert(kernels::Device& device, kernels::Stream& stream, const Op& op, const kernels::TensorDesc& from,
             void* source, const kernels::TensorDesc& to, void* target) {
  const kernels::KernelPtr kernel = kernels::kernel_for(device, op, {.inputs = {from}, .outputs = {to}});
  const auto workspace = device.allocate(kernel->workspace_bytes());
  void* const args[] = {source, target};
  kernel->bind(args, workspace->data())->launch(stream);
  stream.synchronize();
}

/// Memory between an arena and a file: a run that fills its GPU has none for more than was planned. Only
/// where the replica has given back all but the weights it is memory of its own.
class Staging {
 public:
  Staging(kernels::Device& device, const ReplicaMemory& memory, std::size_t bytes)
      : own_(memory.idle_between_steps().size() < bytes ? device.allocate(bytes) : nullptr),
        data_(own_ != nullptr ? own_->data() : memory.idle_between_steps().data()) {}

  void* data() const { return data_; }

 private:
  std::unique_ptr<kernels::Memory> own_;
  void* data_;
};

}  // namespace

std::vector<ParameterIO::ParameterSlot> ParameterIO::parameter_slots() const {
  std::vector<ParameterSlot> slots;
  for (const model::Parameter& parameter : plan_.graph.parameters()) {
    const std::string& name = plan_.graph.value(parameter.value).name;
    slots.push_back({.name = name,
                     .value = parameter.value,
                     .file_shape = parameter.file_shape,
                     .data = memory_.parameter(name),
                     .file_transposed = parameter.file_transposed});
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

std::vector<ParameterIO::ParameterSlot> ParameterIO::averaged_slots() const {
  std::vector<ParameterSlot> slots = parameter_slots();
  for (ParameterSlot& slot : slots) {
    if (void* const average = memory_.average(slot.name)) slot.copy = std::exchange(slot.data, average);
  }
  return slots;
}

std::vector<ParameterIO::ParameterSlot> ParameterIO::weight_slots() const {
  std::vector<ParameterSlot> slots = averaged_slots();
  for (ParameterSlot& slot : buffer_slots()) slots.push_back(std::move(slot));
  return slots;
}

void ParameterIO::initialise(std::uint64_t seed) {
  const std::vector<ParameterSlot> slots = averaged_slots();
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const model::Parameter& parameter = plan_.graph.parameters()[index];
    std::vector<float> values(static_cast<std::size_t>(parameter.file_shape.elements()));
    draw(parameter.initializer, Philox(seed, index), values);
    write(slots[index], values);
  }
  const std::vector<ParameterSlot> buffers = buffer_slots();
  for (std::size_t index = 0; index < buffers.size(); ++index) {
    write(buffers[index], model::initial_words(plan_.graph.buffers()[index], type_of(buffers[index])));
  }
  copy_parameters();
}

void ParameterIO::load(const WeightsFile& file, std::span<const std::string> without) {
  load(file, weight_slots(), without);
}

std::vector<std::pair<std::string, Shape>> ParameterIO::weight_shapes() const {
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const ParameterSlot& slot : weight_slots()) shapes.emplace_back(slot.name, slot.file_shape);
  return shapes;
}

void ParameterIO::load(const WeightsFile& file, const std::vector<ParameterSlot>& slots,
                       std::span<const std::string> without) {
  std::vector<std::string> names;
  for (const ParameterSlot& slot : slots) names.push_back(slot.name);
  for (const WeightsTensor& tensor : file.tensors()) {
    if (std::ranges::find(names, tensor.name) != names.end()) continue;
    throw DataError(fmt::format("{}: tensor '{}' is none of the model's{}", tensor.file.string(),
                                tensor.shown_name(), did_you_mean(tensor.name, names)));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const ParameterSlot& slot = slots[i];
    if (std::ranges::find(without, slot.name) != without.end()) continue;
    const DType dtype = type_of(slot).dtype;
    write(slot, needed_words(file, slot.name, dtype, slot.file_shape));
    const bool is_last = i + 1 == slots.size() || slots[i + 1].gathered_state != slot.gathered_state;
    if (slot.gathered_state && is_last)
      memory_.keep_optimizer_state(*slot.gathered_state, plan_.arena.buckets);
  }
  copy_parameters();
}

/// The whole arena at once: copies have the offsets and layouts of their originals.
void ParameterIO::copy_parameters() {
  const std::span<std::byte> copies = memory_.parameter_copies();
  if (copies.empty()) return;
  const Shape all{plan_.arena.elements + plan_.arena.frozen_elements};
  const DType narrow = plan_.arena.copy_dtype;
  const auto stream = device_.make_stream();
  convert(device_, *stream, kernels::Cast{narrow},
          {.dtype = plan_.arena.dtype, .shape = all, .layout = kernels::Layout::row_major(all)},
          memory_.parameters().data(),
          {.dtype = narrow, .shape = all, .layout = kernels::Layout::row_major(all)}, copies.data());
}

const model::ValueType& ParameterIO::type_of(const ParameterSlot& slot) const {
  return plan_.graph.value(slot.value).type;
}

void ParameterIO::write(const ParameterSlot& slot, std::span<const float> values) {
  const model::Value& value = plan_.graph.value(slot.value);
  const auto stream = device_.make_stream();
  if (has_file_layout(value, slot.file_transposed)) {
    device_.copy_to_device(slot.data, values.data(), values.size_bytes(), *stream);
    if (slot.copy != nullptr) device_.copy_to_device(slot.copy, values.data(), values.size_bytes(), *stream);
    return stream->synchronize();
  }
  const Staging staging(device_, memory_, values.size_bytes());
  device_.copy_to_device(staging.data(), values.data(), values.size_bytes(), *stream);
  for (void* const target : {slot.data, slot.copy}) {
    if (target != nullptr)
      convert(device_, *stream, kernels::Reorder{}, file_desc(value, slot.file_transposed), staging.data(),
              tensor_desc(value), target);
  }
}

kernels::StepState ParameterIO::step_state() const {
  kernels::StepState state;
  const auto stream = device_.make_stream();
  device_.copy_to_host(&state, memory_.step_state(), sizeof(state), *stream);
  stream->synchronize();
  return state;
}

std::int64_t ParameterIO::applied_updates() const {
  return step_state().applied_updates();
}

GradScalerState ParameterIO::grad_scaler() const {
  const kernels::StepState state = step_state();
  return {.scale = state.scaler_scale, .growth_tracker = state.growth_tracker};
}

void ParameterIO::set_applied_updates(std::int64_t count, GradScalerState grad_scaler) {
  const kernels::StepState state{
      .step = count, .scaler_scale = grad_scaler.scale, .growth_tracker = grad_scaler.growth_tracker};
  const auto stream = device_.make_stream();
  device_.copy_to_device(memory_.step_state(), &state, sizeof(state), *stream);
  stream->synchronize();
}

void ParameterIO::broadcast_buffers(comm::Communicator& communicator) {
  if (plan_.arena.buffers.empty() || communicator.world().size == 1) return;
  std::vector<std::byte> bytes(plan_.arena.buffer_bytes());
  void* const arena = memory_.buffer(plan_.arena.buffers.front());
  const auto stream = device_.make_stream();
  device_.copy_to_host(bytes.data(), arena, bytes.size(), *stream);
  stream->synchronize();
  communicator.broadcast(bytes, 0);
  device_.copy_to_device(arena, bytes.data(), bytes.size(), *stream);
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
  for (std::size_t i = 0; i < slots.size(); ++i) {
    slots[i].value = plan_.graph.parameters()[i].gradient;
    if (slots[i].value != model::no_value) slots[i].data = memory_.gradient(slots[i].name);
  }
  std::erase_if(slots, [](const ParameterSlot& slot) { return slot.value == model::no_value; });
  std::vector<NamedTensor> tensors;
  read(slots, tensors);
  return tensors;
}

void ParameterIO::read(const std::vector<ParameterSlot>& slots, std::vector<NamedTensor>& into) const {
  into.resize(slots.size());
  const auto stream = device_.make_stream();
  for (std::size_t i = 0; i < slots.size(); ++i) read(slots[i], into[i], *stream);
}

NamedTensor ParameterIO::described(const ParameterSlot& slot) const {
  const DType dtype = type_of(slot).dtype;
  return {.name = slot.name,
          .shape = slot.file_shape,
          .values = {},
          .dtype = is_half(dtype) ? DType::f32 : dtype};
}

TensorSource ParameterIO::source(std::vector<ParameterSlot> slots) const {
  TensorSource source;
  for (const ParameterSlot& slot : slots) source.tensors.push_back(described(slot));
  source.read = [this, slots = std::move(slots)](std::size_t index, NamedTensor& into) {
    read(slots[index], into, *device_.make_stream());
  };
  return source;
}

void ParameterIO::read(const ParameterSlot& slot, NamedTensor& into, kernels::Stream& stream) const {
  const model::Value& value = plan_.graph.value(slot.value);
  const DType dtype = value.type.dtype;
  std::vector<float> values = std::move(into.values);
  into = described(slot);
  into.values = std::move(values);
  into.values.resize(bytes_of(into.dtype, into.shape) / sizeof(float));
  const std::size_t bytes = bytes_of(dtype, into.shape);
  const bool as_it_is = has_file_layout(value, slot.file_transposed);
  const Staging staging(device_, memory_, as_it_is ? 0 : bytes);
  if (!as_it_is) {
    convert(device_, stream, kernels::Reorder{}, tensor_desc(value), slot.data,
            file_desc(value, slot.file_transposed), staging.data());
  }
  device_.copy_to_host(into.values.data(), as_it_is ? slot.data : staging.data(), bytes, stream);
  stream.synchronize();
  if (dtype == DType::bf16) widen_in_place(into.values);
}

std::string ParameterIO::fingerprint() const {
  std::vector<std::byte> piece(std::min<std::size_t>(memory_.parameters().size(), std::size_t{1} << 20));
  const auto stream = device_.make_stream();
  Sha256 hash;
  for (const std::span<const std::byte> arena : {memory_.parameters(), memory_.averages()}) {
    for (std::size_t at = 0; at < arena.size(); at += piece.size()) {
      const std::size_t count = std::min(piece.size(), arena.size() - at);
      device_.copy_to_host(piece.data(), arena.data() + at, count, *stream);
      stream->synchronize();
      hash.update(std::span(piece).first(count));
    }
  }
  return hash.hex();
}

}  // namespace lockstep::runtime
