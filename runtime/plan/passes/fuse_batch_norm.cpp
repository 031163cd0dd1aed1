#include "runtime/plan/passes/passes.h"

#include "kernels/batch_norm.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"

namespace lockstep::runtime {
namespace {

using kernels::BatchNorm;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using model::Graph;
using model::Node;
using model::ValueId;

/// The batch norm that writes `id`, if one node alone reads it and no function has been taken up yet.
Node* open_norm(Graph& graph, ValueId id) {
  const auto writer = graph.producer(id);
  if (!writer || graph.uses(id) != 1 || graph.output == id) return nullptr;
  Node& node = graph.nodes()[*writer];
  const auto* norm = as<BatchNorm>(node);
  return norm != nullptr && !norm->then.is_there ? &node : nullptr;
}

bool has_residual(const Node& norm) {
  return norm.inputs.size() > BatchNorm::residual;
}

/// `node` becomes the norm with what it did itself, in its own place, where all operands are there.
void take_up(Node& norm, Node& node, model::OpPtr op) {
  node.op = std::move(op);
  node.inputs = std::move(norm.inputs);
  node.layer = norm.layer;
  drop(norm);
}

void take_up_add(Graph& graph, Node& add) {
  if (graph.value(add.inputs[0]).type != graph.value(add.inputs[1]).type) return;
  for (const std::size_t side : {0U, 1U}) {
    const ValueId residual = add.inputs[1 - side];
    Node* const norm = open_norm(graph, add.inputs[side]);
    if (norm == nullptr || has_residual(*norm)) continue;
    norm->inputs.push_back(residual);
    return take_up(*norm, add, norm->op);
  }
}

/// Behind a residual a function whose gradient needs its argument would need that kept.
bool follows(const Pointwise& function, const Node& norm) {
  return function.keeps_zero() && (!has_residual(norm) || function.is(PointwiseFunction::relu));
}

void take_up_function(Graph& graph, Node& node) {
  Node* const norm = open_norm(graph, node.inputs[0]);
  const Pointwise function = *as<Pointwise>(node);
  if (norm == nullptr || !follows(function, *norm)) return;
  const auto& op = static_cast<const model::SpecOp<BatchNorm>&>(*norm->op);
  take_up(*norm, node, op.changed([&](BatchNorm& spec) {
    spec.then = {.is_there = true, .function = function.steps[0].function};
  }));
}

}  // namespace

void fuse_batch_norm(Graph& graph) {
  for (Node& node : graph.nodes()) {
    const auto* op = as<Pointwise>(node);
    if (op == nullptr || op->step_count != 1) continue;
    if (op->inputs == 1) {
      take_up_function(graph, node);
    } else if (op->is(PointwiseFunction::add)) {
      take_up_add(graph, node);
    }
  }
  erase_dropped(graph);
}

}  // namespace lockstep::runtime
