#include "model/graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/json.h"
#include "kernels/reorder.h"
#include "kernels/step_state.h"
#include "model/spec_op.h"

namespace lockstep::model {
namespace {

/// A file of weights has names as texts of JSON, and an entry of its own among them.
void require_storable(const std::string& name) {
  const std::string quoted = Json(name).dump();
  const bool controls = std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 0x7F; });
  if (!controls && name != "__metadata__" && Json::parse(quoted).get<std::string>() == name) return;
  throw UsageError(
      fmt::format("parameter {}: no file of weights can keep this name; take one of UTF-8 without control "
                  "characters that is not __metadata__",
                  quoted));
}

void require_sound(const std::string& name, const Initializer& initializer) {
  const auto [bound, start, deviation] = initializer;
  if (std::isfinite(bound) && std::isfinite(start) && std::isfinite(deviation) && deviation >= 0) return;
  throw UsageError(fmt::format(
      "parameter '{}' is to start with bound {}, start {} and deviation {}: give finite numbers, and no "
      "negative deviation",
      name, bound, start, deviation));
}

}  // namespace

void draw(const Initializer& initializer, const Philox& random, std::span<float> values) {
  const auto [bound, start, deviation] = initializer;
  if (deviation > 0) {
    random.normals(0, values);
    for (float& value : values) value = start + value * deviation;
  } else {
    random.uniforms(0, values);
    for (float& value : values) value = start + (2 * value - 1) * bound;
  }
}

std::vector<float> initial_words(const Buffer& buffer, const ValueType& type) {
  const auto count = static_cast<std::size_t>(type.shape.elements());
  if (type.dtype == DType::f32) return std::vector<float>(count, buffer.start);
  const std::vector<std::int64_t> integers(count, static_cast<std::int64_t>(buffer.start));
  std::vector<float> words(2 * count);
  std::memcpy(words.data(), integers.data(), words.size() * sizeof(float));
  return words;
}

ValueId Graph::add_value(std::string name, ValueType type, Role role) {
  values_.push_back({.name = std::move(name), .type = std::move(type), .role = role, .layout = {}});
  return static_cast<ValueId>(values_.size()) - 1;
}

void Graph::require_new_name(const std::string& name) const {
  require_storable(name);
  for (const Value& other : values_) {
    const bool named = other.role == Role::parameter || other.role == Role::buffer;
    if (!named || other.name != name) continue;
    throw UsageError(fmt::format("two parameters are named '{}': give each layer a name of its own", name));
  }
}

ValueId Graph::add_parameter(const std::string& name, const Shape& shape, Initializer initializer) {
  require_new_name(name);
  require_sound(name, initializer);
  const ValueId id = add_value(name, {DType::f32, shape}, Role::parameter);
  parameters_.push_back({.value = id, .gradient = no_value, .file_shape = shape, .initializer = initializer});
  return id;
}

ValueId Graph::add_buffer(const std::string& name, const Shape& shape, float start, DType dtype) {
  require_new_name(name);
  const ValueId id = add_value(name, {dtype, shape}, Role::buffer);
  buffers_.push_back({.value = id, .start = start});
  return id;
}

ValueId Graph::add_statistics(const std::string& name, const ValueType& type) {
  statistics_.push_back(add_value(name, type, Role::statistics));
  return statistics_.back();
}

ValueId Graph::step_state() {
  const ValueId known = find(Role::step_state);
  return known != no_value ? known : add_value("step state", kernels::step_state_type(), Role::step_state);
}

std::vector<ValueId> Graph::add_node(OpPtr op, std::vector<ValueId> inputs, const std::string& layer) {
  Types outputs;
  try {
    outputs = op->infer(types(inputs));
    if (outputs.empty()) throw UsageError("infer gives no output: give the type of one or more");
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("layer '{}' ({}): {}", layer, op->name(), error.what()));
  }
  return append(std::move(op), std::move(inputs), outputs, layer, Phase::forward);
}

std::vector<ValueId> Graph::add_node(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                     const std::string& layer) {
  return append(std::move(op), std::move(inputs), outputs, layer, Phase::forward);
}

std::vector<ValueId> Graph::add_backward_node(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                              const std::string& layer) {
  return append(std::move(op), std::move(inputs), outputs, layer, Phase::backward);
}

std::vector<ValueId> Graph::append(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                   const std::string& layer, Phase phase) {
  Node node{.id = new_node_id(),
            .op = std::move(op),
            .inputs = std::move(inputs),
            .outputs = {},
            .layer = layer,
            .phase = phase,
            .segment = phase == Phase::forward ? segment_ : no_segment};
  for (const ValueType& type : outputs) {
    node.outputs.push_back(add_value(fmt::format("{}:{}", layer, node.op->name()), type, Role::activation));
  }
  nodes_.push_back(node);
  return node.outputs;
}

void Graph::add_update_node(OpPtr op, std::vector<ValueId> inputs, std::vector<ValueId> buffers,
                            const std::string& layer) {
  nodes_.push_back({.id = new_node_id(),
                    .op = std::move(op),
                    .inputs = std::move(inputs),
                    .outputs = std::move(buffers),
                    .layer = layer});
}

bool Graph::is_update(const Node& node) const {
  return !node.outputs.empty() && value(node.outputs[0]).role == Role::buffer;
}

void Graph::keep_from_source(ValueId id) {
  keep_as_cache(id);
  decoding.value().of_source.push_back(id);
}

ValueId Graph::insert_copy(ValueId from) {
  const auto writer = producer(from);
  const std::string layer = writer ? nodes_[*writer].layer : value(from).name;
  const ValueId copy =
      append(make_op(kernels::Reorder{}), {from}, types(std::span(&from, 1)), layer, Phase::backward).front();
  const auto behind = nodes_.begin() + static_cast<std::ptrdiff_t>(writer ? *writer + 1 : 0);
  std::rotate(behind, nodes_.end() - 1, nodes_.end());
  return copy;
}

void Graph::insert_after(std::size_t place, Node node) {
  node.id = new_node_id();
  nodes_.insert(nodes_.begin() + static_cast<std::ptrdiff_t>(place) + 1, std::move(node));
}

bool Graph::begin_segment() {
  if (segment_ != no_segment) return false;
  segment_ = segments_++;
  return true;
}

std::string Node::key() const {
  return fmt::format("{}:{} {}", id, layer, op->name());
}

std::int64_t Graph::parameter_elements() const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) sum += parameter.file_shape.elements();
  return sum;
}

ValueId Graph::find(Role role) const {
  for (std::size_t id = 0; id < values_.size(); ++id) {
    if (values_[id].role == role) return static_cast<ValueId>(id);
  }
  return no_value;
}

std::size_t Graph::uses(ValueId id) const {
  std::size_t count = 0;
  for (const Node& node : nodes_) count += static_cast<std::size_t>(std::ranges::count(node.inputs, id));
  return count;
}

std::optional<std::size_t> Graph::producer(ValueId id) const {
  for (std::size_t at = 0; at < nodes_.size(); ++at) {
    if (std::ranges::find(nodes_[at].outputs, id) != nodes_[at].outputs.end()) return at;
  }
  return std::nullopt;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) std::ranges::replace(node.inputs, from, to);
}

kernels::KernelIo Graph::io(const Node& node) const {
  const auto describe = [this](ValueId id) {
    const Value& v = value(id);
    return kernels::TensorDesc{.dtype = v.type.dtype, .shape = v.type.shape, .layout = v.layout};
  };
  kernels::KernelIo io;
  for (const ValueId id : node.inputs) io.inputs.push_back(describe(id));
  for (const ValueId id : node.outputs) io.outputs.push_back(describe(id));
  return io;
}

Types Graph::types(std::span<const ValueId> ids) const {
  Types types;
  types.reserve(ids.size());
  for (const ValueId id : ids) types.push_back(given(id).type);
  return types;
}

const Value& Graph::given(ValueId id) const {
  if (id >= 0 && static_cast<std::size_t>(id) < values_.size()) return value(id);
  throw_stray_tensor();
}

void throw_stray_tensor() {
  throw UsageError("a tensor is of another call of forward: make it anew in each call");
}

}  // namespace lockstep::model
