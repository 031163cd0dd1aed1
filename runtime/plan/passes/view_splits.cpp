#include <algorithm>
#include <iterator>

#include "kernels/base/alignment.h"
#include "kernels/split.h"
#include "kernels/view.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::Split;
using model::Graph;
using model::Node;
using model::Role;
using model::ValueId;

/// Whether it lies in memory that no batch, file or exchange knows of.
bool is_in_activations(const Graph& graph, ValueId id) {
  if (graph.value(id).role != Role::activation) return false;
  const auto writer = graph.producer(id);
  const bool is_view = writer && graph.nodes()[*writer].op->is_view();
  return !is_view || is_in_activations(graph, graph.nodes()[*writer].inputs[0]);
}

/// One view for each part; none at all where a part would not begin as memory of its own does.
std::vector<Node> views_of(Graph& graph, const Node& node) {
  const Split* const split = node.op->as<Split>();
  const model::ValueType whole = graph.value(node.inputs[Split::x]).type;
  const bool in_one_piece =
      whole.shape.elements() == whole.shape.elements(kernels::axis_of(split->dim, whole.shape));
  if (!in_one_piece || !is_in_activations(graph, node.inputs[Split::x])) return {};
  std::vector<Node> views;
  std::int64_t first = 0;
  for (const ValueId part : node.outputs) {
    const model::Value& value = graph.value(part);
    const kernels::Narrow narrow(value.type.shape, first);
    first += value.type.shape.elements();
    if (value.role != Role::activation || narrow.offset(whole.dtype) % cache_line != 0) return {};
    views.push_back(node);
    views.back().op = model::make_op(narrow);
    views.back().outputs = {part};
  }
  return views;
}

}  // namespace

void view_splits(Graph& graph) {
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes()) {
    std::vector<Node> instead;
    if (node.op->as<Split>() != nullptr) instead = views_of(graph, node);
    if (instead.empty()) instead.push_back(node);
    for (std::size_t i = 1; i < instead.size(); ++i) instead[i].id = graph.new_node_id();
    std::ranges::move(instead, std::back_inserter(nodes));
  }
  graph.nodes() = std::move(nodes);
}

}  // namespace lockstep::runtime
