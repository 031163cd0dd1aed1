#include "runtime/plan/passes/passes.h"

#include <algorithm>

#include "kernels/cast.h"
#include "kernels/classifier.h"
#include "kernels/conv2d.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "kernels/view.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"

namespace lockstep::runtime {
namespace {

using namespace model;
using kernels::Pointwise;
using kernels::PointwiseFunction;
using kernels::PointwisePart;

bool is_relu(const Node& node, PointwisePart part) {
  const auto* op = as<Pointwise>(node);
  return op != nullptr && op->is(PointwiseFunction::relu, part);
}

Node* producer_of(Graph& graph, ValueId id) {
  const auto at = graph.producer(id);
  return at ? &graph.nodes()[*at] : nullptr;
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
  erase_dropped(graph);
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
  erase_dropped(graph);
}

/// cast(gradient of weights): the sums are f32, so they are written as what they are.
void fuse_cast_into_weights_gradient(Graph& graph) {
  for (Node& cast : graph.nodes()) {
    const auto* op = as<kernels::Cast>(cast);
    if (op == nullptr || op->to != DType::f32 || graph.uses(cast.inputs[0]) != 1) continue;
    Node* before = producer_of(graph, cast.inputs[0]);
    if (before == nullptr || (as<kernels::Conv2dBackwardWeights>(*before) == nullptr &&
                              as<kernels::LinearBackwardWeights>(*before) == nullptr)) {
      continue;
    }
    std::ranges::replace(before->outputs, cast.inputs[0], cast.outputs[0]);
    drop(cast);
  }
  erase_dropped(graph);
}

/// add(gradient of a weight, what comes from its embedding): a few rows are added to it in place.
void fuse_add_into_embedding_backward(Graph& graph) {
  using Backward = kernels::EmbeddingBackward;
  for (Node& add : graph.nodes()) {
    const auto* op = as<Pointwise>(add);
    if (op == nullptr || !op->is(PointwiseFunction::add) || add.phase != Phase::backward) continue;
    for (const std::size_t side : {1U, 0U}) {
      Node* const rows = producer_of(graph, add.inputs[side]);
      const bool alone = graph.uses(add.inputs[side]) == 1;
      if (rows == nullptr || !alone || as<Backward>(*rows) == nullptr || rows->inputs.size() > Backward::sum)
        continue;
      add.op = rows->op;
      add.inputs = {rows->inputs[Backward::dy], rows->inputs[Backward::tokens], add.inputs[1 - side]};
      add.layer = rows->layer;
      drop(*rows);
      break;
    }
  }
  erase_dropped(graph);
}

/// cast(cast(gradient of weights)), narrow and back to f32: the classifier's are f32 from the start.
void drop_casts_of_wide_gradients(Graph& graph) {
  for (Node& cast : graph.nodes()) {
    const auto* op = as<kernels::Cast>(cast);
    if (op == nullptr || op->to != DType::f32 || graph.uses(cast.inputs[0]) != 1) continue;
    Node* narrowing = producer_of(graph, cast.inputs[0]);
    if (narrowing == nullptr || as<kernels::Cast>(*narrowing) == nullptr) continue;
    const ValueId wide = narrowing->inputs[0];
    Node* writer = graph.uses(wide) == 1 ? producer_of(graph, wide) : nullptr;
    if (writer == nullptr || as<kernels::ClassifierLoss>(*writer) == nullptr) continue;
    std::ranges::replace(writer->outputs, wide, cast.outputs[0]);
    drop(*narrowing);
    drop(cast);
  }
  erase_dropped(graph);
}

/// The parameter that is `weight`, or whose copy in another type it is; null for neither.
const Parameter* parameter_of(const Graph& graph, ValueId weight) {
  const auto writer = graph.producer(weight);
  if (writer && as<kernels::Cast>(graph.nodes()[*writer]) != nullptr) {
    weight = graph.nodes()[*writer].inputs[0];
    if (graph.uses(weight) != 1) return nullptr;
  }
  const auto found = std::ranges::find(graph.parameters(), weight, &Parameter::value);
  return found == graph.parameters().end() ? nullptr : &*found;
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
  const Parameter* const parameter = parameter_of(graph, weight);
  if (parameter == nullptr) return false;
  const auto writer = graph.producer(parameter->gradient);
  return parameter->gradient == no_value ||
         (writer && as<kernels::LinearBackwardWeights>(graph.nodes()[*writer]) != nullptr);
}

/// Whether a plan that laid these weights out before, if there is one, saw them as weights of images, too.
bool lie_for_images(const Graph& graph, ValueId weight, const ParameterLayouts& pinned) {
  const auto layout = pinned.find(graph.value(parameter_of(graph, weight)->value).name);
  return layout == pinned.end() || layout->second.padded.rank() == 4;
}

/// Whether the gradients of what is multiplied by `weight` get the shape of images, and no other node sees
/// them flat: not where those of several layers are added up.
bool gives_images_back(const Graph& graph, ValueId weight) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    if (as<kernels::LinearBackwardData>(node) == nullptr ||
        node.inputs[kernels::LinearBackwardData::w] != weight)
      return true;
    return std::ranges::all_of(graph.nodes(), [&](const Node& reader) {
      return std::ranges::count(reader.inputs, node.outputs[0]) == 0 ||
             as<kernels::Reshape>(reader) != nullptr;
    });
  });
}

bool can_widen(const Graph& graph, const Node& linear, const ParameterLayouts& pinned) {
  const ValueId weight = linear.inputs[kernels::Linear::w];
  return owns_weights(graph, linear) && lie_for_images(graph, weight, pinned) &&
         gives_images_back(graph, weight);
}

/// Flattened images that only linear layers read, each with weights of its own.
bool read_only_by_linear(const Graph& graph, ValueId id, const ParameterLayouts& pinned) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    const auto count = std::ranges::count(node.inputs, id);
    const bool forward = as<kernels::Linear>(node) != nullptr && node.inputs[kernels::Linear::x] == id &&
                         can_widen(graph, node, pinned);
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
  const Parameter& parameter = *parameter_of(graph, weight);
  const Shape wide = with_images(graph.value(weight).type.shape, images);
  for (const ValueId id : {weight, parameter.value, parameter.gradient}) {
    if (id != no_value) graph.value(id).type.shape = wide;
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
void fuse_flatten_into_linear(Graph& graph, const ParameterLayouts& pinned) {
  for (Node& flatten : graph.nodes()) {
    if (!flattens_images(graph, flatten)) continue;
    const ValueId flat = flatten.outputs[0];
    if (graph.uses(flat) == 0 || !read_only_by_linear(graph, flat, pinned)) continue;
    const Shape shape = graph.value(flatten.inputs[0]).type.shape;
    const ValueId source = flatten.inputs[0];
    drop(flatten);
    for (Node& node : graph.nodes()) {
      if (std::ranges::count(node.inputs, flat) == 0) continue;
      if (as<kernels::Linear>(node) != nullptr) widen_linear(graph, node, shape);
      // Where the weights are frozen and the bias is not, nothing else reads what it gives for them.
      if (as<kernels::LinearBackwardWeights>(node) != nullptr) {
        Shape& weights = graph.value(node.outputs[kernels::LinearBackwardWeights::dw]).type.shape;
        weights = with_images(weights, shape);
      }
    }
    graph.replace_uses(flat, source);
  }
  erase_dropped(graph);
}

}  // namespace

void fuse(Graph& graph, const ParameterLayouts& pinned) {
  fuse_cast_into_weights_gradient(graph);
  drop_casts_of_wide_gradients(graph);
  fuse_add_into_embedding_backward(graph);
  fuse_flatten_into_linear(graph, pinned);
  fuse_relu_into_producer(graph);
  fuse_relu_backward_into_pool_backward(graph);
  fuse_pointwise(graph);
}

}  // namespace lockstep::runtime
