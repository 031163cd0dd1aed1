#include <algorithm>
#include <ranges>

#include "kernels/cast.h"
#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::ValueId;

/// What a node computes of a gradient in this micro-batch.
ValueId add_fresh_value(Graph& graph, ValueId gradient) {
  const model::Value sum = graph.value(gradient);
  const ValueId fresh = graph.add_value("fresh " + sum.name, sum.type, model::Role::activation);
  graph.value(fresh).layout = sum.layout;
  return fresh;
}

/// The one kind of node that reads what it writes: the sum of the micro-batches before.
void add_to_sum(Graph& graph, ValueId gradient) {
  const std::size_t writer = *graph.producer(gradient);
  const ValueId fresh = add_fresh_value(graph, gradient);
  std::ranges::replace(graph.nodes()[writer].outputs, gradient, fresh);
  Node sum{.op = model::make_op(kernels::Pointwise::single(kernels::PointwiseFunction::add)),
           .inputs = {gradient, fresh},
           .outputs = {gradient},
           .layer = graph.nodes()[writer].layer,
           .phase = model::Phase::backward};
  graph.insert_after(writer, std::move(sum));
}

/// The node that rounds comes right behind the one that completes the sum.
void add_rounding(Graph& graph, const model::Parameter& parameter, DType dtype) {
  const std::size_t writer = *graph.producer(parameter.gradient_sum);
  Node node{.op = model::make_op(kernels::Cast{dtype}),
            .inputs = {parameter.gradient_sum},
            .outputs = {parameter.gradient},
            .layer = graph.nodes()[writer].layer,
            .phase = model::Phase::backward};
  graph.insert_after(writer, std::move(node));
}

}  // namespace

void accumulate_gradients(Graph& graph) {
  // From the last on: the sums behind a node with several gradients then lie in the order of the parameters.
  for (const model::Parameter& parameter : std::views::reverse(graph.parameters())) {
    if (parameter.gradient != model::no_value) add_to_sum(graph, parameter.gradient);
  }
}

void sum_gradients_apart(Graph& graph, DType dtype, bool ends_step) {
  for (model::Parameter& parameter : graph.parameters()) {
    if (parameter.gradient == model::no_value) continue;
    parameter.gradient_sum = parameter.gradient;
    graph.value(parameter.gradient_sum).role = model::Role::gradient_sum;
    const model::Value sum = graph.value(parameter.gradient_sum);
    parameter.gradient = graph.add_value(sum.name, {dtype, sum.type.shape}, model::Role::gradient);
    graph.value(parameter.gradient).layout = sum.layout;
    if (ends_step) add_rounding(graph, parameter, dtype);
  }
}

}  // namespace lockstep::runtime
