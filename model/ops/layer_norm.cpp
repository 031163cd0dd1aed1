#include "kernels/layer_norm.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::LayerNorm;
using kernels::LayerNormBackward;

void differentiate(const LayerNorm&, Backward& backward) {
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
  std::vector<ValueId> inputs{x.id(), graph.add_parameter(parameter_name(name, "weight"), row, {.start = 1})};
  if (options.bias) inputs.push_back(graph.add_parameter(parameter_name(name, "bias"), row, {}));
  return apply(graph, LayerNorm{options.eps}, differentiate, std::move(inputs), name);
}

}  // namespace lockstep::model
