#include <algorithm>
#include <ranges>

#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes.h"

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
  Node sum{.id = graph.new_node_id(),
           .op = model::make_op(kernels::Pointwise::single(kernels::PointwiseFunction::add)),
           .inputs = {gradient, fresh},
           .outputs = {gradient},
           .layer = graph.nodes()[writer].layer,
           .phase = model::Phase::backward};
  graph.nodes().insert(graph.nodes().begin() + static_cast<std::ptrdiff_t>(writer) + 1, std::move(sum));
}

}  // namespace

void accumulate_gradients(Graph& graph) {
  // From the last on: the sums behind a node with several gradients then lie in the order of the parameters.
  for (const model::Parameter& parameter : std::views::reverse(graph.parameters())) {
    if (parameter.gradient != model::no_value) add_to_sum(graph, parameter.gradient);
  }
}

}  // namespace lockstep::runtime
