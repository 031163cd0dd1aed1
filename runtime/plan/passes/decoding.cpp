#include <algorithm>
#include <vector>

#include "kernels/linear_rows.h"
#include "kernels/reorder.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Role;
using model::ValueId;

using Marks = std::vector<bool>;

std::size_t index(ValueId id) {
  return static_cast<std::size_t>(id);
}

/// By value: the caches that are to be written.
Marks wanted_caches(const Graph& graph, Decodes what) {
  Marks wanted(graph.value_count(), false);
  for (std::size_t id = 0; id < wanted.size(); ++id) {
    wanted[id] = what != Decodes::source && graph.value(static_cast<ValueId>(id)).role == Role::cache;
  }
  for (const ValueId id : graph.decoding->of_source) wanted[index(id)] = what == Decodes::source;
  return wanted;
}

/// Keeps the nodes that write one of these values, or what such a node reads and no other run has left.
void keep_writers(Graph& graph, Marks needed) {
  Marks kept(graph.nodes().size(), false);
  for (std::size_t at = kept.size(); at-- > 0;) {
    const Node& node = graph.nodes()[at];
    kept[at] = std::ranges::any_of(node.outputs, [&](ValueId id) { return needed[index(id)]; });
    if (!kept[at]) continue;
    for (const ValueId id : node.inputs) {
      if (graph.value(id).role != Role::cache) needed[index(id)] = true;
    }
  }
  std::size_t at = 0;
  std::erase_if(graph.nodes(), [&](const Node&) { return !kept[at++]; });
}

}  // namespace

void prepare_decoding(Graph& graph, Decodes what) {
  if (what == Decodes::output) {
    graph.output = graph.add_node(model::make_op(kernels::Reorder{}), {graph.output}, "output").front();
    graph.keep_as_cache(graph.output);
  } else {
    graph.output = model::no_value;
  }
  keep_writers(graph, wanted_caches(graph, what));
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
