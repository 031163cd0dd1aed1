#include "kernels/layer_norm.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::LayerNorm;
using kernels::LayerNormBackward;

/// x and the residual have one gradient: that of their total, in the type of each.
/// Dropout is done there too, but where the total has no other gradient, in front of which it would stand.
void differentiate_with_residual(const LayerNorm& op, Backward& backward) {
  std::vector<std::size_t> inputs{LayerNorm::x, LayerNorm::weight, LayerNorm::bias};
  if (is_half(backward.type(backward.input(LayerNorm::residual)).dtype))
    inputs.push_back(LayerNorm::residual);
  std::vector<ValueId> operands{backward.output_gradient(), backward.output(LayerNorm::total),
                                backward.input(LayerNorm::weight), backward.output(LayerNorm::mean),
                                backward.output(LayerNorm::rstd)};
  LayerNormBackward gradient;
  const bool drops = backward.has_input(LayerNorm::state);
  const bool drops_apart = drops && !backward.has_output_gradient(LayerNorm::total);
  if (backward.has_output_gradient(LayerNorm::total)) {
    operands.push_back(backward.output_gradient(LayerNorm::total));
    if (drops) operands.push_back(backward.input(LayerNorm::state));
    gradient.dropout = op.dropout;
  }
  Types types;
  for (const std::size_t input : inputs) types.push_back(backward.type(backward.input(input)));
  auto outputs = backward.add_nodes(make_op(gradient), std::move(operands), types);
  if (drops_apart) {
    ValueId& dresidual = outputs[LayerNormBackward::dresidual];
    dresidual = backward.add_node(make_op(op.dropout), {dresidual, backward.input(LayerNorm::state)},
                                  backward.type(dresidual));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) backward.contribute(inputs[i], outputs[i]);
  if (outputs.size() <= LayerNormBackward::dresidual)
    backward.contribute(LayerNorm::residual, outputs[LayerNormBackward::dx]);
}

void differentiate(const LayerNorm& op, Backward& backward) {
  if (backward.has_input(LayerNorm::residual)) return differentiate_with_residual(op, backward);
  std::vector<ValueId> operands{backward.output_gradient(), backward.input(LayerNorm::x),
                                backward.input(LayerNorm::weight), backward.output(LayerNorm::mean),
                                backward.output(LayerNorm::rstd)};
  if (backward.has_input(LayerNorm::bias)) {
    backward.add_gradients(LayerNormBackward{}, std::move(operands),
                           {LayerNorm::x, LayerNorm::weight, LayerNorm::bias});
  } else {
    backward.add_gradients(LayerNormBackward{}, std::move(operands), {LayerNorm::x, LayerNorm::weight});
  }
}

}  // namespace

Tensor layer_norm(Tensor x, const std::string& name, LayerNormOptions options) {
  Graph& graph = x.graph();
  const std::size_t rank = x.shape().rank();
  if (rank == 0) {
    throw UsageError(fmt::format("layer '{}' (layer_norm): a scalar has no row to normalise", name));
  }
  const Shape row{x.shape()[rank - 1]};
  std::vector<Tensor> inputs{x, parameter(graph, parameter_name(name, "weight"), row, {.start = 1})};
  if (options.bias) inputs.push_back(parameter(graph, parameter_name(name, "bias"), row, {}));
  return apply(graph, LayerNorm{options.eps}, differentiate, inputs, name);
}

}  // namespace lockstep::model
