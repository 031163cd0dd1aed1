#include "model/model.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/ops/losses.h"

namespace lockstep::model {
namespace {

Shape with_batch(std::int64_t batch_size, const Shape& sample) {
  std::vector<std::int64_t> extents{batch_size};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return Shape(std::move(extents));
}

/// Before a kernel is prepared for it, or memory allocated.
void require_addressable(const Model& model, const Graph& graph) {
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(static_cast<ValueId>(id));
    try {
      bytes_of(value.type.dtype, value.type.shape);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("model '{}', value '{}': {}", model.name, value.name, error.what()));
    }
  }
}

OpPtr loss_op(const Model& model, bool training) {
  if (model.loss == LossKind::cross_entropy) {
    if (!training) return std::make_shared<SoftmaxCrossEntropyEval>();
    return std::make_shared<SoftmaxCrossEntropy>(kernels::SoftmaxCrossEntropy{model.label_smoothing});
  }
  if (!training) return std::make_shared<MeanSquaredErrorEval>();
  return std::make_shared<MeanSquaredError>();
}

}  // namespace

Graph build_graph(const Model& model, const InputSpec& input, std::int64_t batch_size, bool training) {
  const bool classes = model.loss == LossKind::cross_entropy;
  if (classes != (input.num_classes > 0)) {
    throw UsageError(fmt::format("model '{}' learns {}, but the data set has {}", model.name,
                                 classes ? "classes" : "values", classes ? "no classes" : "classes"));
  }
  Graph graph;
  const ValueId x = graph.add_value("input", {input.dtype, with_batch(batch_size, input.shape)}, Role::input);
  const ValueType target_type = classes ? ValueType{DType::i64, {batch_size}}
                                        : ValueType{DType::f32, with_batch(batch_size, input.target_shape)};
  const ValueId target = graph.add_value("target", target_type, Role::target);
  const ValueId state = graph.add_value("step state", step_state_type(), Role::step_state);

  const Tensor output = model.forward(Tensor(graph, x));
  if (classes && output.shape() != Shape{batch_size, input.num_classes}) {
    throw UsageError(fmt::format("model '{}' gives {} but the data set has {} classes", model.name,
                                 output.shape().str(), input.num_classes));
  }
  if (output.dtype() != DType::f32) {
    throw UsageError(fmt::format("model '{}' gives {} of {}, the loss wants f32", model.name,
                                 output.shape().str(), name_of(output.dtype())));
  }
  const auto outputs = graph.add_node(loss_op(model, training), {output.id(), target, state}, "loss");
  graph.value(outputs.back()).role = Role::control;
  graph.value(outputs.back()).name = "control";
  require_addressable(model, graph);
  return graph;
}

}  // namespace lockstep::model
