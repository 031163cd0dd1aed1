#include "kernels/loss.h"

#include "kernels/cast.h"
#include "kernels/classifier.h"
#include "model/define_op.h"
#include "model/model.h"

namespace lockstep::model {
namespace {

/// A loss computes its own gradient: the end of forward is the start of backward.
template <class Loss>
void differentiate(const Loss&, Backward& backward) {
  backward.contribute(Loss::predictions, backward.output(Loss::gradient));
}

/// Gradients of weights are f32, those of their narrow copies are of the copies' type.
void differentiate(const kernels::ClassifierLoss&, Backward& backward) {
  using Op = kernels::ClassifierLoss;
  backward.contribute(Op::x, backward.output(Op::dx));
  const auto contribute = [&](std::size_t input, std::size_t output) {
    const ValueType& wanted = backward.type(backward.input(input));
    const bool is_wide = wanted.dtype == DType::f32;
    backward.contribute(input, is_wide ? backward.output(output)
                                       : backward.add_node(make_op(kernels::Cast{wanted.dtype}),
                                                           {backward.output(output)}, wanted));
  };
  contribute(Op::weight, Op::dweight);
  if (backward.has_input(Op::bias)) contribute(Op::bias, Op::dbias);
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

OpPtr classifier_loss_op(float label_smoothing, bool has_gradient) {
  return make_op<kernels::ClassifierLoss>({.label_smoothing = label_smoothing, .has_gradient = has_gradient},
                                          differentiate);
}

}  // namespace lockstep::model
