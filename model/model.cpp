#include "model/forward.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/spec_op.h"

namespace lockstep::model {
namespace {

/// (N, K), or with a class for each token (N, T, K).
Shape logits_shape(std::int64_t batch_size, const InputSpec& input) {
  std::vector<std::int64_t> extents{batch_size};
  extents.insert(extents.end(), input.target_shape.begin(), input.target_shape.end());
  extents.push_back(input.num_classes);
  return Shape(std::move(extents));
}

bool has_classes(const Model& model) {
  return model.loss == LossKind::cross_entropy;
}

void require_targets(const Model& model, const InputSpec& input) {
  const bool classes = has_classes(model);
  if (classes == (input.num_classes > 0)) return;
  throw UsageError(fmt::format("model '{}' learns {}, but the data set has {}", model.name,
                               classes ? "classes" : "values", classes ? "no classes" : "classes"));
}

void require_output(const Model& model, const InputSpec& input, std::int64_t batch_size,
                    const Shape& output) {
  if (!has_classes(model)) {
    if (output == with_batch(batch_size, input.target_shape)) return;
    throw UsageError(fmt::format("model '{}' gives {}, but the targets of a batch are {}", model.name,
                                 output.str(), with_batch(batch_size, input.target_shape).str()));
  }
  if (output == logits_shape(batch_size, input)) return;
  const std::string each = input.target_shape.rank() == 0
                               ? std::string()
                               : fmt::format(" for each of {} tokens of a sample", input.target_shape.str());
  throw UsageError(fmt::format("model '{}' gives {} but the data set has {} classes{}", model.name,
                               output.str(), input.num_classes, each));
}

/// What the network reads, of what a batch brings and a device keeps.
Tensor add_input(Graph& graph, const InputSpec& input, std::int64_t batch_size) {
  const auto add = [&](const ValueType& type) { return graph.add_value("input", type, Role::input); };
  const auto add_stored = [&](const char* name, std::int64_t item_bytes) {
    return graph.add_value(name, {DType::u8, {input.stored, item_bytes}}, Role::stored);
  };
  const auto gathered = [&](OpPtr op, const char* stored, std::int64_t item_bytes) -> Tensor {
    std::vector<ValueId> operands{add({DType::i64, {batch_size, 2}})};
    operands.push_back(add_stored(stored, item_bytes));
    return {graph, graph.add_node(std::move(op), std::move(operands), "samples").front()};
  };
  if (input.windows) return gathered(make_op(*input.windows), "stored tokens", input.windows->width);
  if (input.rows) return gathered(make_op(*input.rows), "stored samples", input.rows->stored_bytes());
  if (!input.pictures) return {graph, add({input.dtype, with_batch(batch_size, input.shape)})};
  const kernels::PicturesToFloats& op = *input.pictures;
  std::vector<ValueId> operands{add({DType::u8, {batch_size, op.row_bytes()}})};
  if (op.has_store()) operands.push_back(add_stored("stored pictures", op.stored_bytes()));
  return {graph, graph.add_node(make_op(op), std::move(operands), "pictures").front()};
}

ValueId add_target(Graph& graph, const Model& model, const InputSpec& input, std::int64_t batch_size) {
  static_assert(kernels::GatherWindows::targets == std::size_t{kernels::GatherRows::targets});
  if (input.windows || input.rows) return graph.nodes().front().outputs[kernels::GatherRows::targets];
  const ValueType type{has_classes(model) ? DType::i64 : DType::f32,
                       with_batch(batch_size, input.target_shape)};
  return graph.add_value("target", type, Role::target);
}

}  // namespace

Shape with_batch(std::int64_t batch_size, const Shape& sample) {
  std::vector<std::int64_t> extents{batch_size};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return Shape(std::move(extents));
}

Tensor run_forward(const Model& model, Tensor x) {
  if (!model.forward)
    throw UsageError(fmt::format("model '{}' has no function forward: give it its layers", model.name));
  const Tensor output = model.forward(x);
  if (output.is_of(x.graph())) return output;
  throw UsageError(fmt::format(
      "model '{}' gives a tensor of another call of forward: make it anew in each call", model.name));
}

void require_addressable(const Model& model, const Graph& graph) {
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(static_cast<ValueId>(id));
    try {
      bytes_of(value.type.dtype, value.type.shape);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("model '{}', value '{}': {}", model.name, value.name, error.what()));
    }
  }
}

InputSpec cut_to(InputSpec input, std::int64_t length) {
  if (length == 0) return input;
  input.shape = {length};
  if (input.windows) input.windows->length = length;
  if (input.num_classes > 0 && input.target_shape.rank() == 1)
    input.target_shape = {length - input.source_length};
  return input;
}

Graph build_forward(const Model& model, const InputSpec& input, std::int64_t batch_size, bool training,
                    bool returns_states) {
  require_targets(model, input);
  Graph graph;
  graph.training = training;
  graph.returns_states = returns_states;
  const Tensor x = add_input(graph, input, batch_size);
  if (input.states.rank() > 0)
    graph.add_value("states", {DType::f32, with_batch(batch_size, input.states)}, Role::states);
  const Tensor output = run_forward(model, x);
  require_output(model, input, batch_size, output.shape());
  require_addressable(model, graph);
  graph.output = output.id();
  return graph;
}

std::vector<std::string> head_parameters(const Graph& forward) {
  std::vector<std::string> names;
  for (auto writer = forward.producer(forward.output); writer && names.empty();) {
    const Node& node = forward.nodes()[*writer];
    for (const ValueId id : node.inputs) {
      if (forward.value(id).role == Role::parameter) names.push_back(forward.value(id).name);
    }
    writer = node.inputs.empty() ? std::nullopt : forward.producer(node.inputs.front());
  }
  return names;
}

std::vector<std::string> token_parameters(const Graph& forward) {
  std::vector<ValueId> tokens{forward.find(Role::input)};
  std::vector<std::string> names;
  for (const Node& node : forward.nodes()) {
    const bool reads = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return std::ranges::find(tokens, id) != tokens.end(); });
    if (!reads) continue;
    for (const ValueId id : node.inputs) {
      if (forward.value(id).role == Role::parameter) names.push_back(forward.value(id).name);
    }
    if (!names.empty()) return names;
    for (const ValueId id : node.outputs) {
      if (forward.value(id).type.dtype == DType::i64) tokens.push_back(id);
    }
  }
  return names;
}

Graph build_graph(const Model& model, const InputSpec& input, std::int64_t batch_size, bool training,
                  bool returns_states) {
  Graph graph = build_forward(model, input, batch_size, training, returns_states);
  const LossOperands operands{.predictions = graph.output,
                              .targets = add_target(graph, model, input, batch_size),
                              .step_state = graph.step_state()};
  if (has_classes(model)) {
    add_cross_entropy(graph, operands, training ? model.label_smoothing : 0, training);
  } else {
    add_mean_squared_error(graph, operands, training);
  }
  return graph;
}

}  // namespace lockstep::model
