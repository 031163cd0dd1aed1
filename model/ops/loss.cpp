#include "kernels/loss.h"

#include "model/define_op.h"
#include "model/model.h"

namespace lockstep::model {
namespace {

/// A loss computes its own gradient: the end of forward is the start of backward.
template <class Loss>
void differentiate(const Loss&, Backward& backward) {
  backward.contribute(Loss::predictions, backward.output(Loss::gradient));
}

template <class Loss>
void add(Graph& graph, Loss loss, const LossOperands& operands) {
  const auto outputs = graph.add_node(make_op(loss, differentiate<Loss>),
                                      {operands.predictions, operands.targets, operands.step_state}, "loss");
  graph.value(outputs[Loss::control]).role = Role::control;
  graph.value(outputs[Loss::control]).name = "control";
}

}  // namespace

void add_cross_entropy(Graph& graph, const LossOperands& operands, float label_smoothing, bool has_gradient) {
  add(graph, kernels::SoftmaxCrossEntropy{.label_smoothing = label_smoothing, .has_gradient = has_gradient},
      operands);
}

void add_mean_squared_error(Graph& graph, const LossOperands& operands, bool has_gradient) {
  add(graph, kernels::MeanSquaredError{.has_gradient = has_gradient}, operands);
}

}  // namespace lockstep::model
