#include <algorithm>

#include "kernels/layer_norm.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::LayerNorm;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using model::Graph;
using model::Node;
using model::ValueId;

bool adds_alike(const Graph& graph, const Node& node) {
  const auto* op = node.op == nullptr ? nullptr : node.op->as<Pointwise>();
  return op != nullptr && op->step_count == 1 && op->steps[0].function == PointwiseFunction::add &&
         graph.value(node.inputs[0]).type == graph.value(node.inputs[1]).type;
}

/// The first norm with a bias, and no residual yet, that normalises `total`.
Node* norm_of(Graph& graph, ValueId total) {
  const auto found = std::ranges::find_if(graph.nodes(), [total](const Node& node) {
    return node.op != nullptr && node.op->as<LayerNorm>() != nullptr && node.inputs[LayerNorm::x] == total &&
           node.inputs.size() == LayerNorm::residual;
  });
  return found == graph.nodes().end() ? nullptr : &*found;
}

/// In the add's place, since others may read the total before the norm does.
void take_up(Node& add, Node& norm) {
  const ValueId total = add.outputs[0];
  add.op = norm.op;
  add.layer = norm.layer;
  add.inputs = {add.inputs[0], norm.inputs[LayerNorm::weight], norm.inputs[LayerNorm::bias], add.inputs[1]};
  add.outputs = std::move(norm.outputs);
  add.outputs.push_back(total);
  norm = Node{};
}

}  // namespace

void fuse_layer_norm(Graph& graph, bool keep_segments) {
  for (Node& add : graph.nodes()) {
    if (!adds_alike(graph, add)) continue;
    Node* const norm = norm_of(graph, add.outputs[0]);
    if (norm == nullptr || (keep_segments && norm->segment != add.segment)) continue;
    // Its weight and bias must be there where the add is: parameters are.
    const bool ready = std::ranges::all_of(
        norm->inputs, [&](ValueId id) { return id == add.outputs[0] || !graph.producer(id); });
    if (ready) take_up(add, *norm);
  }
  std::erase_if(graph.nodes(), [](const Node& node) { return node.op == nullptr; });
}

}  // namespace lockstep::runtime
