#include <algorithm>

#include "kernels/pool_indices.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::MaxPool2d;
using kernels::MaxPool2dBackward;
using model::Graph;
using model::Node;
using model::ValueId;
using Indexed = kernels::MaxPool2dWithIndices;

/// Whether the node, or what has become of it, finds the maxima whose places `op` wants.
bool finds_maxima(const Node& node, ValueId x, const MaxPool2dBackward& op) {
  if (node.inputs.size() != 1 || node.inputs[0] != x) return false;
  if (const auto* const plain = node.op->as<MaxPool2d>()) return plain->geometry == op.geometry;
  const auto* const indexed = node.op->as<Indexed>();
  return indexed != nullptr && indexed->geometry == op.geometry && indexed->relu_mask == op.relu_mask;
}

ValueId indices_of(Graph& graph, Node& pool, const MaxPool2dBackward& op) {
  if (pool.op->as<Indexed>() != nullptr) return pool.outputs[Indexed::indices];
  const model::Value y = graph.value(pool.outputs[MaxPool2d::y]);
  pool.op = model::make_op(Indexed{.geometry = op.geometry, .relu_mask = op.relu_mask});
  pool.outputs.push_back(
      graph.add_value(y.name + " indices", {DType::u8, y.type.shape}, model::Role::activation));
  return pool.outputs.back();
}

}  // namespace

void keep_pool_indices(Graph& graph) {
  for (Node& back : graph.nodes()) {
    const auto* const op = back.op->as<MaxPool2dBackward>();
    if (op == nullptr || !Indexed::fits(op->geometry)) continue;
    const auto pool = std::ranges::find_if(graph.nodes(), [&](const Node& node) {
      return finds_maxima(node, back.inputs[MaxPool2dBackward::x], *op);
    });
    if (pool == graph.nodes().end()) continue;
    back.inputs = {back.inputs[MaxPool2dBackward::dy], indices_of(graph, *pool, *op)};
    back.op = model::make_op(kernels::MaxPool2dWithIndicesBackward{op->geometry});
  }
}

}  // namespace lockstep::runtime
