#include <algorithm>
#include <vector>

#include "kernels/linear_rows.h"
#include "kernels/reorder.h"
#include "model/spec_op.h"
#include "runtime/plan/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Role;
using model::ValueId;

/// By node: whether it writes a cache, or a value that such a node needs.
std::vector<bool> needed_for_caches(const Graph& graph) {
  std::vector<bool> value_needed(graph.value_count(), false);
  std::vector<bool> node_needed(graph.nodes().size(), false);
  for (std::size_t at = graph.nodes().size(); at-- > 0;) {
    const Node& node = graph.nodes()[at];
    node_needed[at] = std::ranges::any_of(node.outputs, [&](ValueId id) {
      return value_needed[static_cast<std::size_t>(id)] || graph.value(id).role == Role::cache;
    });
    if (!node_needed[at]) continue;
    for (const ValueId id : node.inputs) value_needed[static_cast<std::size_t>(id)] = true;
  }
  return node_needed;
}

}  // namespace

void prepare_decoding(Graph& graph, bool gives_output) {
  if (gives_output) {
    graph.output = graph.add_node(model::make_op(kernels::Reorder{}), {graph.output}, "output").front();
    return graph.keep_as_cache(graph.output);
  }
  const std::vector<bool> needed = needed_for_caches(graph);
  std::size_t at = 0;
  std::erase_if(graph.nodes(), [&](const Node&) { return !needed[at++]; });
  graph.output = model::no_value;
}

void use_row_products(Graph& graph) {
  for (Node& node : graph.nodes()) {
    const auto* const product = node.op->as<kernels::Linear>();
    if (product == nullptr) continue;
    const model::ValueType& weights = graph.value(node.inputs[kernels::Linear::w]).type;
    if (weights.dtype != DType::f32 || weights.shape.rank() != 2) continue;
    node.op = model::make_op(
        kernels::LinearRows{.activation = product->activation, .precision = product->precision});
  }
}

}  // namespace lockstep::runtime
