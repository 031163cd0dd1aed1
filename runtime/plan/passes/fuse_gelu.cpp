
#include "kernels/linear_gelu.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::Linear;
using kernels::LinearBackwardData;
using kernels::LinearBackwardGelu;
using kernels::LinearGelu;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using kernels::PointwisePart;
using model::Graph;
using model::Node;
using model::ValueId;

bool is_gelu(const Node& node, PointwisePart part) {
  const auto* op = as<Pointwise>(node);
  return op != nullptr && op->is(PointwiseFunction::gelu_tanh, part);
}

/// What writes `id`, if it is a product by a matrix in half types.
template <class Spec>
Node* product_of(Graph& graph, ValueId id, std::size_t weights) {
  const auto at = graph.producer(id);
  if (!at || !is_half(graph.value(id).type.dtype)) return nullptr;
  Node& node = graph.nodes()[*at];
  const bool by_matrix =
      as<Spec>(node) != nullptr && graph.value(node.inputs[weights]).type.shape.rank() == 2;
  return by_matrix ? &node : nullptr;
}

/// In the product's place, which comes first: others may read what it gives before gelu does.
void fuse_forward(Graph& graph, Node& gelu) {
  const ValueId pre = gelu.inputs[0];
  Node* const linear = product_of<Linear>(graph, pre, Linear::w);
  if (linear == nullptr || as<Linear>(*linear)->activation != kernels::Activation::none) return;
  const bool is_read = graph.uses(pre) > 1 || graph.output == pre;
  linear->op = model::make_op(LinearGelu{.precision = as<Linear>(*linear)->precision});
  linear->outputs = gelu.outputs;
  if (is_read) linear->outputs.push_back(pre);
  drop(gelu);
}

/// What gelu was taken of is a value of forward, so it is there where the product is.
void fuse_backward(Graph& graph, Node& gelu) {
  const ValueId pre = gelu.inputs[0];
  const ValueId dy = gelu.inputs[1];
  Node* const product = product_of<LinearBackwardData>(graph, dy, LinearBackwardData::w);
  if (product == nullptr || graph.uses(dy) != 1) return;
  product->op = model::make_op(LinearBackwardGelu{.precision = as<LinearBackwardData>(*product)->precision});
  product->inputs.push_back(pre);
  product->outputs = gelu.outputs;
  drop(gelu);
}

}  // namespace

void fuse_gelu(Graph& graph) {
  for (Node& node : graph.nodes()) {
    if (is_gelu(node, PointwisePart::value)) fuse_forward(graph, node);
    if (is_gelu(node, PointwisePart::gradient)) fuse_backward(graph, node);
  }
  erase_dropped(graph);
}

}  // namespace lockstep::runtime
