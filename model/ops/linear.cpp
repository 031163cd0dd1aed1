#include "kernels/linear.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Linear;

void differentiate(const Linear&, Backward& backward) {
  const ValueId dy = backward.output_gradient();
  const kernels::LinearBackwardWeights weights;
  if (backward.has_input(Linear::b)) {
    backward.add_gradients(weights, {backward.input(Linear::x), dy}, {Linear::w, Linear::b});
  } else {
    backward.add_gradients(weights, {backward.input(Linear::x), dy}, {Linear::w});
  }
  backward.add_gradients(kernels::LinearBackwardData{}, {dy, backward.input(Linear::w)}, {Linear::x});
}

}  // namespace

Tensor apply_linear(Tensor x, Tensor weight, Tensor bias, const std::string& layer) {
  return apply(x.graph(), Linear{}, differentiate, {x, weight, bias}, layer);
}

Tensor linear(Tensor x, const std::string& name, std::int64_t out_features, LinearOptions options) {
  Graph& graph = x.graph();
  const std::size_t rank = x.shape().rank();
  if (rank == 0 || out_features < 1) {
    throw UsageError(fmt::format("layer '{}' (linear): input {} and {} output features do not make a matrix",
                                 name, x.shape().str(), out_features));
  }
  const std::int64_t in_features = x.shape()[rank - 1];
  const auto [weight, bias] = initializers(options.initializer, in_features);
  std::vector<Tensor> inputs{
      x, parameter(graph, parameter_name(name, "weight"), {out_features, in_features}, weight)};
  if (options.file_transposed) {
    graph.parameters().back().file_shape = {in_features, out_features};
    graph.parameters().back().file_transposed = true;
  }
  if (options.bias) {
    inputs.push_back(parameter(graph, parameter_name(name, "bias"), {out_features},
                               options.bias_initializer.value_or(bias)));
  }
  return apply(graph, Linear{}, differentiate, inputs, name);
}

Tensor shared_linear(Tensor x, Tensor weight, std::optional<Tensor> bias) {
  std::vector<Tensor> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  return apply(x.graph(), Linear{}, differentiate, inputs, layer_of(weight));
}

}  // namespace lockstep::model
