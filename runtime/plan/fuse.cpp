#include "runtime/plan/passes.h"

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "kernels/view.h"
#include "model/spec_op.h"

namespace lockstep::runtime {
namespace {

using namespace model;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using kernels::PointwisePart;

/// A dropped node has no op.
template <class Spec>
const Spec* as(const Node& node) {
  return node.op == nullptr ? nullptr : node.op->as<Spec>();
}

bool is_relu(const Node& node, PointwisePart part) {
  const auto* op = as<Pointwise>(node);
  return op != nullptr && op->step_count == 1 && op->steps[0].function == PointwiseFunction::relu &&
         op->steps[0].part == part;
}

Node* producer_of(Graph& graph, ValueId id) {
  const auto at = graph.producer(id);
  return at ? &graph.nodes()[*at] : nullptr;
}

void drop(Node& node) {
  node = Node{};
}

void erase_dropped_nodes(Graph& graph) {
  std::erase_if(graph.nodes(), [](const Node& node) { return node.op == nullptr; });
}

/// relu(f(x)) becomes one node when no other node reads f(x); backward works from the relu's output.
void fuse_relu_into_producer(Graph& graph) {
  for (Node& relu : graph.nodes()) {
    if (!is_relu(relu, PointwisePart::value) || graph.uses(relu.inputs[0]) != 1) continue;
    Node* before = producer_of(graph, relu.inputs[0]);
    if (before == nullptr || before->outputs.size() != 1) continue;
    OpPtr fused = before->op->with_activation(kernels::Activation::relu);
    if (fused == nullptr) continue;
    before->op = std::move(fused);
    before->outputs = relu.outputs;
    drop(relu);
  }
  erase_dropped_nodes(graph);
}

/// relu_backward(y, max_pool2d_backward(y, dy)): the pooling already reads y, whose sign is the mask.
void fuse_relu_backward_into_pool_backward(Graph& graph) {
  using Pool = kernels::MaxPool2dBackward;
  for (Node& relu : graph.nodes()) {
    if (!is_relu(relu, PointwisePart::gradient) || graph.uses(relu.inputs[1]) != 1) continue;
    Node* pool = producer_of(graph, relu.inputs[1]);
    if (pool == nullptr || as<Pool>(*pool) == nullptr || pool->inputs[Pool::x] != relu.inputs[0]) continue;
    Pool masked = *as<Pool>(*pool);
    masked.relu_mask = true;
    pool->op = make_op(masked);
    pool->outputs = relu.outputs;
    drop(relu);
  }
  erase_dropped_nodes(graph);
}

/// Whether nothing but these nodes of one linear layer sees the shape of its weights.
bool owns_weights(const Graph& graph, const Node& linear) {
  const ValueId weight = linear.inputs[kernels::Linear::w];
  const auto reads_as_layer = [&](const Node& node) {
    const auto count = std::ranges::count(node.inputs, weight);
    const bool backward = as<kernels::LinearBackwardData>(node) != nullptr;
    return count == 0 || (count == 1 && (node.id == linear.id || backward));
  };
  if (!std::ranges::all_of(graph.nodes(), reads_as_layer)) return false;
  const auto parameter = std::ranges::find(graph.parameters(), weight, &Parameter::value);
  if (parameter == graph.parameters().end()) return false;
  const auto writer = graph.producer(parameter->gradient);
  return parameter->gradient == no_value ||
         (writer && as<kernels::LinearBackwardWeights>(graph.nodes()[*writer]) != nullptr);
}

/// Flattened images that only linear layers read, each with weights of its own.
bool read_only_by_linear(const Graph& graph, ValueId id) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    const auto count = std::ranges::count(node.inputs, id);
    const bool forward = as<kernels::Linear>(node) != nullptr && node.inputs[kernels::Linear::x] == id &&
                         owns_weights(graph, node);
    const bool backward = as<kernels::LinearBackwardWeights>(node) != nullptr &&
                          node.inputs[kernels::LinearBackwardWeights::x] == id;
    return count == 0 || (count == 1 && (forward || backward));
  });
}

bool flattens_images(const Graph& graph, const Node& node) {
  if (as<kernels::Reshape>(node) == nullptr || node.phase != Phase::forward) return false;
  const Value& images = graph.value(node.inputs[0]);
  const Shape& flat = graph.value(node.outputs[0]).type.shape;
  return images.role == Role::activation && images.type.shape.rank() == 4 && flat.rank() == 2 &&
         flat[0] == images.type.shape[0];
}

Shape with_images(const Shape& matrix, const Shape& images) {
  return {matrix[0], images[1], images[2], images[3]};
}

/// Gives the linear layer's values the shape of the images that it flattens.
void widen_linear(Graph& graph, const Node& linear, const Shape& images) {
  const ValueId weight = linear.inputs[kernels::Linear::w];
  graph.value(weight).type.shape = with_images(graph.value(weight).type.shape, images);
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.value != weight || parameter.gradient == no_value) continue;
    graph.value(parameter.gradient).type.shape = graph.value(weight).type.shape;
  }
  for (Node& node : graph.nodes()) {
    if (as<kernels::LinearBackwardData>(node) == nullptr ||
        node.inputs[kernels::LinearBackwardData::w] != weight)
      continue;
    const ValueId dx = node.outputs[0];
    graph.value(dx).type.shape = images;
    for (Node& back : graph.nodes()) {
      if (as<kernels::Reshape>(back) == nullptr || back.inputs[0] != dx) continue;
      graph.replace_uses(back.outputs[0], dx);
      drop(back);
    }
  }
}

/// A linear layer behind flattened images reads them in their blocked layout, without a copy. The network's
/// own input is row-major, where flattening is free.
void fuse_flatten_into_linear(Graph& graph) {
  for (Node& flatten : graph.nodes()) {
    if (!flattens_images(graph, flatten)) continue;
    const ValueId flat = flatten.outputs[0];
    if (graph.uses(flat) == 0 || !read_only_by_linear(graph, flat)) continue;
    const Shape shape = graph.value(flatten.inputs[0]).type.shape;
    const ValueId source = flatten.inputs[0];
    drop(flatten);
    for (Node& node : graph.nodes()) {
      const bool reads = std::ranges::count(node.inputs, flat) > 0;
      if (reads && as<kernels::Linear>(node) != nullptr) widen_linear(graph, node, shape);
    }
    graph.replace_uses(flat, source);
  }
  erase_dropped_nodes(graph);
}

}  // namespace

void fuse(Graph& graph) {
  fuse_flatten_into_linear(graph);
  fuse_relu_into_producer(graph);
  fuse_relu_backward_into_pool_backward(graph);
  fuse_pointwise(graph);
}

}  // namespace lockstep::runtime
