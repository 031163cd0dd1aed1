#include "kernels/recurrent.h"
#include "kernels/sequence.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::LastStepBackward;
using model::Graph;
using model::Node;
using model::ValueId;

/// What the node has at `index`; no_value if it has nothing there.
ValueId input_at(const Node& node, std::size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : model::no_value;
}

/// If all that `node`, the gradient of a recurrent layer, has of y's is that of each row's last step.
template <class Op>
void take_last_step(Graph& graph, Node& node) {
  const Op* const op = as<Op>(node);
  if (op == nullptr) return;
  const ValueId dy = node.inputs[Op::dy];
  const auto writer = graph.producer(dy);
  if (!writer || graph.uses(dy) != 1) return;
  Node& last_step = graph.nodes()[*writer];
  const bool same_rows = as<LastStepBackward>(last_step) != nullptr &&
                         input_at(last_step, LastStepBackward::lengths) == input_at(node, op->lengths_at());
  if (!same_rows) return;
  Op last = *op;
  last.last = true;
  node.op = model::make_op(last);
  node.inputs[Op::dy] = last_step.inputs[LastStepBackward::dy];
  drop(last_step);
}

}  // namespace

void fuse_last_step(Graph& graph) {
  for (Node& node : graph.nodes()) {
    take_last_step<kernels::RnnBackward>(graph, node);
    take_last_step<kernels::LstmBackward>(graph, node);
  }
  erase_dropped(graph);
}

}  // namespace lockstep::runtime
