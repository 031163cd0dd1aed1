#include <algorithm>

#include "kernels/classifier.h"
#include "model/model.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using kernels::ClassifierLoss;
using kernels::Linear;
using kernels::SoftmaxCrossEntropy;
using model::Graph;
using model::Node;
using model::ValueId;

/// Below, logits are small beside the rest of a step, and one product of all rows is the fastest.
constexpr std::int64_t least_classes = 8192;

bool is_frozen(const Graph& graph, ValueId id) {
  return std::ranges::any_of(graph.parameters(), [id](const model::Parameter& parameter) {
    return parameter.value == id && parameter.frozen;
  });
}

/// Where the linear map stands that alone makes the logits for this loss.
std::optional<std::size_t> classifier_of(const Graph& graph, ValueId logits) {
  const auto writer = graph.producer(logits);
  if (!writer || graph.uses(logits) != 1) return std::nullopt;
  const Node& node = graph.nodes()[*writer];
  const auto* linear = node.op->as<Linear>();
  if (linear == nullptr || linear->activation != kernels::Activation::none) return std::nullopt;
  const Shape& weight = graph.value(node.inputs[Linear::w]).type.shape;
  if (weight.rank() != 2 || weight[0] < least_classes) return std::nullopt;
  for (std::size_t i = Linear::w; i < node.inputs.size(); ++i) {
    if (is_frozen(graph, node.inputs[i])) return std::nullopt;
  }
  return writer;
}

void put_in_place(Graph& graph, Node& loss, const Node& linear) {
  const SoftmaxCrossEntropy spec = *loss.op->as<SoftmaxCrossEntropy>();
  const ValueId control = loss.outputs[SoftmaxCrossEntropy::control];
  loss.op = model::classifier_loss_op(spec.label_smoothing, spec.has_gradient);
  loss.inputs = {linear.inputs[Linear::x], linear.inputs[Linear::w],
                 loss.inputs[SoftmaxCrossEntropy::targets], loss.inputs[SoftmaxCrossEntropy::state]};
  if (linear.inputs.size() > Linear::b) loss.inputs.push_back(linear.inputs[Linear::b]);
  loss.layer = linear.layer;
  loss.outputs = {control};
  const model::Types types = loss.op->infer(graph.types(loss.inputs));
  for (std::size_t i = ClassifierLoss::dx; i < types.size(); ++i) {
    loss.outputs.push_back(
        graph.add_value(loss.layer + ":" + loss.op->name(), types[i], model::Role::activation));
  }
}

}  // namespace

void fuse_classifier(Graph& graph) {
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    if (graph.nodes()[at].op->as<SoftmaxCrossEntropy>() == nullptr) continue;
    const ValueId logits = graph.nodes()[at].inputs[SoftmaxCrossEntropy::predictions];
    const auto linear = classifier_of(graph, logits);
    if (!linear) continue;
    put_in_place(graph, graph.nodes()[at], graph.nodes()[*linear]);
    graph.nodes().erase(graph.nodes().begin() + static_cast<std::ptrdiff_t>(*linear));
    if (graph.output == logits) graph.output = model::no_value;
    return;
  }
}

}  // namespace lockstep::runtime
