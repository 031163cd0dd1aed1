#include "runtime/plan/fuse.h"

#include <algorithm>

#include "model/ops/conv2d.h"
#include "model/ops/linear.h"
#include "model/ops/pool2d.h"
#include "model/ops/relu.h"
#include "model/ops/reshape.h"

namespace lockstep::runtime {
namespace {

using namespace model;

template <class T>
const T* as(const Node& node) {
  return dynamic_cast<const T*>(node.op.get());
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

template <class T>
OpPtr with_relu(const Node& node) {
  const T* op = as<T>(node);
  if (op == nullptr || op->spec().relu) return nullptr;
  auto spec = op->spec();
  spec.relu = true;
  return std::make_shared<T>(spec);
}

/// relu(f(x)) becomes one node when nobody else reads f(x); backward works from the relu's output.
void fuse_relu_into_producer(Graph& graph) {
  for (Node& relu : graph.nodes()) {
    if (as<Relu>(relu) == nullptr || graph.uses(relu.inputs[0]) != 1) continue;
    Node* before = producer_of(graph, relu.inputs[0]);
    if (before == nullptr) continue;
    OpPtr fused = with_relu<Conv2d>(*before);
    if (fused == nullptr) fused = with_relu<Linear>(*before);
    if (fused == nullptr) continue;
    before->op = std::move(fused);
    before->outputs = relu.outputs;
    drop(relu);
  }
  erase_dropped_nodes(graph);
}

/// relu_backward(y, max_pool2d_backward(y, dy)): the pooling already reads y, whose sign is the mask.
void fuse_relu_backward_into_pool_backward(Graph& graph) {
  for (Node& relu : graph.nodes()) {
    if (as<ReluBackward>(relu) == nullptr || graph.uses(relu.inputs[1]) != 1) continue;
    Node* pool = producer_of(graph, relu.inputs[1]);
    if (pool == nullptr || as<MaxPool2dBackward>(*pool) == nullptr || pool->inputs[0] != relu.inputs[0])
      continue;
    auto spec = as<MaxPool2dBackward>(*pool)->spec();
    spec.relu_mask = true;
    pool->op = std::make_shared<MaxPool2dBackward>(spec);
    pool->outputs = relu.outputs;
    drop(relu);
  }
  erase_dropped_nodes(graph);
}

bool read_only_by_linear(const Graph& graph, ValueId id) {
  return std::ranges::all_of(graph.nodes(), [id](const Node& node) {
    const auto count = std::ranges::count(node.inputs, id);
    const bool as_x = as<Linear>(node) != nullptr || as<LinearBackwardWeights>(node) != nullptr;
    return count == 0 || (as_x && count == 1 && node.inputs[0] == id);
  });
}

Shape with_images(const Shape& matrix, const Shape& images) {
  return {matrix[0], images[1], images[2], images[3]};
}

/// The linear layer's own values, seen with the shape of the images that it flattens.
void widen_linear(Graph& graph, const Node& linear, const Shape& images) {
  const ValueId weight = linear.inputs[1];
  graph.value(weight).type.shape = with_images(graph.value(weight).type.shape, images);
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.value != weight || parameter.gradient == no_value) continue;
    graph.value(parameter.gradient).type.shape = graph.value(weight).type.shape;
  }
  for (Node& node : graph.nodes()) {
    if (as<LinearBackwardData>(node) == nullptr || node.inputs[1] != weight) continue;
    const ValueId dx = node.outputs[0];
    graph.value(dx).type.shape = images;
    for (Node& back : graph.nodes()) {
      if (as<Reshape>(back) == nullptr || back.inputs[0] != dx) continue;
      graph.replace_uses(back.outputs[0], dx);
      drop(back);
    }
  }
}

/// A linear layer behind flattened images takes them as they lie: no copy out of a blocked layout. The
/// network's own input is row-major anyway, and there the flattening is free.
void fuse_flatten_into_linear(Graph& graph) {
  for (Node& flatten : graph.nodes()) {
    if (as<Reshape>(flatten) == nullptr || flatten.phase != Phase::forward) continue;
    const Value& images = graph.value(flatten.inputs[0]);
    if (images.role != Role::activation || images.type.shape.rank() != 4) continue;
    const ValueId flat = flatten.outputs[0];
    if (graph.uses(flat) == 0 || !read_only_by_linear(graph, flat)) continue;
    const Shape shape = images.type.shape;
    const ValueId source = flatten.inputs[0];
    drop(flatten);
    for (Node& node : graph.nodes()) {
      const bool reads = std::ranges::count(node.inputs, flat) > 0;
      if (reads && as<Linear>(node) != nullptr) widen_linear(graph, node, shape);
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
}

}  // namespace lockstep::runtime
