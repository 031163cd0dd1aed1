#include "runtime/plan/passes/passes.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/base/rethrow.h"
#include "kernels/external_op.h"
#include "kernels/fill.h"
#include "model/define_op.h"
#include "model/spec_op.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::ValueId;

/// By value: does it depend on a parameter that is learned?
std::vector<bool> depends_on_parameters(const Graph& graph) {
  std::vector<bool> needed(graph.value_count(), false);
  for (const model::Parameter& parameter : graph.parameters()) {
    if (parameter.frozen) continue;
    needed[static_cast<std::size_t>(parameter.value)] = true;
  }
  for (const Node& node : graph.nodes()) {
    const bool any = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return static_cast<bool>(needed[static_cast<std::size_t>(id)]); });
    for (const ValueId id : node.outputs) needed[static_cast<std::size_t>(id)] = any;
  }
  return needed;
}

bool is_loss(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs,
                             [&](ValueId id) { return graph.value(id).role == model::Role::control; });
}

void require_gradients(const Graph& graph, const std::vector<ValueId>& gradients) {
  std::string unused;
  for (const model::Parameter& parameter : graph.parameters()) {
    const bool reached = gradients[static_cast<std::size_t>(parameter.value)] != model::no_value;
    if (reached || parameter.frozen) continue;
    unused += fmt::format("{}'{}'", unused.empty() ? "" : ", ", graph.value(parameter.value).name);
  }
  if (unused.empty()) return;
  throw UsageError(
      fmt::format("no gradient from the loss reaches {}: use what the layer gives, leave the layer out, or "
                  "take zeros for it by "
                  "--allow-unused",
                  unused));
}

ValueId add_zeros(Graph& graph, const model::Parameter& parameter) {
  const model::Value value = graph.value(parameter.value);
  return graph.add_backward_node(model::make_op(kernels::Fill{}), {}, {value.type}, value.name).front();
}

/// A gradient is summed in place in its arena, so it must be no view, no other parameter's gradient, and no
/// value that a node of backward still reads.
bool is_value_of_its_own(const Graph& graph, ValueId gradient) {
  const auto writer = graph.producer(gradient);
  return writer && !graph.nodes()[*writer].op->is_view() &&
         graph.value(gradient).role == model::Role::activation && graph.uses(gradient) == 0;
}

void own(Graph& graph, model::Parameter& parameter, ValueId gradient) {
  parameter.gradient = gradient;
  model::Value& value = graph.value(gradient);
  value.role = model::Role::gradient;
  value.name = "gradient of " + graph.value(parameter.value).name;
}

/// Its parameter gets a copy, as others that have the same gradient do: a copy of a gradient itself would be
/// one of the sum of micro-batches.
void disown(Graph& graph, ValueId gradient) {
  graph.value(gradient).role = model::Role::activation;
  graph.value(gradient).name = "shared " + graph.value(gradient).name;
  const auto owner = std::ranges::find(graph.parameters(), gradient, &model::Parameter::gradient);
  own(graph, *owner, graph.insert_copy(gradient));
}

/// UsageError names the layer, and the plugin whose gradient throws what is no Error.
void differentiate_node(const Node& node, model::Backward& backward) {
  try {
    node.op->differentiate(backward);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("layer '{}' ({}): {}", node.layer, node.op->name(), error.what()));
  } catch (...) {
    const auto* const op = node.op->as<kernels::ExternalOp>();
    if (op == nullptr) throw;
    rethrow_as<UsageError>(fmt::format("layer '{}': gradient of {}", node.layer, op->whose()));
  }
}

}  // namespace

void set_gradient(Graph& graph, model::Parameter& parameter, ValueId gradient) {
  if (graph.value(gradient).role == model::Role::gradient) disown(graph, gradient);
  own(graph, parameter, is_value_of_its_own(graph, gradient) ? gradient : graph.insert_copy(gradient));
}

void differentiate(Graph& graph, bool allow_unused) {
  const std::vector<bool> needed = depends_on_parameters(graph);
  std::vector<ValueId> gradients(graph.value_count(), model::no_value);
  for (std::size_t at = graph.nodes().size(); at-- > 0;) {
    const Node node = graph.nodes()[at];  // a copy: the graph grows meanwhile
    const bool reached = std::ranges::any_of(
        node.outputs, [&](ValueId id) { return gradients[static_cast<std::size_t>(id)] != model::no_value; });
    if (!reached && !is_loss(graph, node)) continue;
    model::Backward backward(graph, node, gradients, needed);
    differentiate_node(node, backward);
  }
  if (!allow_unused) require_gradients(graph, gradients);
  for (model::Parameter& parameter : graph.parameters()) {
    if (parameter.frozen) continue;
    const ValueId gradient = gradients[static_cast<std::size_t>(parameter.value)];
    set_gradient(graph, parameter, gradient == model::no_value ? add_zeros(graph, parameter) : gradient);
  }
  std::ranges::stable_partition(graph.nodes(), [&](const Node& node) { return !graph.is_update(node); });
}

}  // namespace lockstep::runtime
