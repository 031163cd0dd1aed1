#include <algorithm>

#include "kernels/cast.h"
#include "kernels/dropout.h"
#include "kernels/layer_norm.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::Cast;
using kernels::Dropout;
using kernels::LayerNorm;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using model::Graph;
using model::Node;
using model::ValueId;

bool adds_alike(const Graph& graph, const Node& node) {
  const auto* op = as<Pointwise>(node);
  return op != nullptr && op->is(PointwiseFunction::add) &&
         graph.value(node.inputs[0]).type == graph.value(node.inputs[1]).type;
}

/// The first norm with a bias, and no residual yet, that normalises `total`.
Node* norm_of(Graph& graph, ValueId total) {
  const auto found = std::ranges::find_if(graph.nodes(), [total](const Node& node) {
    return as<LayerNorm>(node) != nullptr && node.inputs[LayerNorm::x] == total &&
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
  drop(norm);
}

void take_up_add(Graph& graph, Node& add, bool keep_segments) {
  if (!adds_alike(graph, add)) return;
  Node* const norm = norm_of(graph, add.outputs[0]);
  if (norm == nullptr || (keep_segments && norm->segment != add.segment)) return;
  // Its weight and bias must be there where the add is: parameters are.
  const bool ready = std::ranges::all_of(
      norm->inputs, [&](ValueId id) { return id == add.outputs[0] || !graph.producer(id); });
  if (ready) take_up(add, *norm);
}

/// The cast between `norm` and a half type that alone writes or reads `id`.
template <class Found>
Node* lone_cast(Graph& graph, const Node& norm, ValueId id, bool keep_segments, Found found) {
  if (graph.uses(id) != 1 || graph.output == id) return nullptr;
  const auto at = std::ranges::find_if(
      graph.nodes(), [&](const Node& node) { return as<Cast>(node) != nullptr && found(node); });
  if (at == graph.nodes().end() || (keep_segments && at->segment != norm.segment)) return nullptr;
  const DType other = graph.value(at->inputs[0] == id ? at->outputs[0] : at->inputs[0]).type.dtype;
  return is_half(other) ? &*at : nullptr;
}

/// One of the two that are added is the branch, which mixed precision computes in a half type.
void read_half_residual(Graph& graph, Node& norm, bool keep_segments) {
  if (norm.inputs.size() <= LayerNorm::residual) return;
  for (const std::size_t side : {std::size_t{LayerNorm::residual}, std::size_t{LayerNorm::x}}) {
    const ValueId wide = norm.inputs[side];
    Node* const cast = lone_cast(graph, norm, wide, keep_segments,
                                 [&](const Node& node) { return node.outputs[0] == wide; });
    if (cast == nullptr) continue;
    std::swap(norm.inputs[side], norm.inputs[LayerNorm::residual]);
    norm.inputs[LayerNorm::residual] = cast->inputs[0];
    drop(*cast);
    return;
  }
}

const model::SpecOp<LayerNorm>& op_of(const Node& norm) {
  return static_cast<const model::SpecOp<LayerNorm>&>(*norm.op);
}

/// The dropout that makes the branch, if nothing else reads what it makes.
void drop_from_residual(Graph& graph, Node& norm, bool keep_segments) {
  if (norm.inputs.size() != LayerNorm::state) return;
  const ValueId branch = norm.inputs[LayerNorm::residual];
  const auto writer = graph.producer(branch);
  if (!writer || graph.uses(branch) != 1 || graph.output == branch) return;
  Node& node = graph.nodes()[*writer];
  const auto* dropout = as<Dropout>(node);
  if (dropout == nullptr || dropout->steps_first || !LayerNorm::can_drop(graph.value(branch).type)) return;
  if (keep_segments && node.segment != norm.segment) return;
  norm.op = op_of(norm).changed([&](LayerNorm& spec) { spec.dropout = *dropout; });
  norm.inputs[LayerNorm::residual] = node.inputs[Dropout::x];
  norm.inputs.push_back(node.inputs[Dropout::state]);
  drop(node);
}

void write_half_result(Graph& graph, Node& norm, bool keep_segments) {
  const ValueId y = norm.outputs[LayerNorm::y];
  Node* const cast =
      lone_cast(graph, norm, y, keep_segments, [&](const Node& node) { return node.inputs[0] == y; });
  if (cast == nullptr) return;
  norm.op = op_of(norm).changed([&](LayerNorm& spec) { spec.to = as<Cast>(*cast)->to; });
  norm.outputs[LayerNorm::y] = cast->outputs[0];
  drop(*cast);
}

}  // namespace

void fuse_layer_norm(Graph& graph, bool keep_segments) {
  for (Node& node : graph.nodes()) take_up_add(graph, node, keep_segments);
  for (Node& node : graph.nodes()) {
    if (as<LayerNorm>(node) == nullptr) continue;
    read_half_residual(graph, node, keep_segments);
    drop_from_residual(graph, node, keep_segments);
    write_half_result(graph, node, keep_segments);
  }
  erase_dropped(graph);
}

}  // namespace lockstep::runtime
