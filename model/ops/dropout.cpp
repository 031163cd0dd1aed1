#include "kernels/dropout.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Dropout;

/// The same elements are dropped from the gradient.
void differentiate(const Dropout& op, Backward& backward) {
  backward.add_gradients(op, {backward.output_gradient(), backward.input(Dropout::state)}, {Dropout::x});
}

}  // namespace

Tensor dropout(Tensor x, double p, bool steps_first) {
  if (!(p >= 0 && p < 1)) {
    throw UsageError(fmt::format("dropout: the probability is {}, must be at least 0 and below 1", p));
  }
  Graph& graph = x.graph();
  if (!graph.training || p == 0) return x;
  const Dropout op{.p = p, .stream = graph.new_dropout_stream(), .steps_first = steps_first};
  return apply(graph, op, differentiate, {x, Tensor(graph, graph.step_state())}, std::string(Dropout::name));
}

}  // namespace lockstep::model
