#include "model/ops/linear.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/backward.h"

namespace lockstep::model {
namespace {

double multiply_adds(const Shape& batch_by_out, std::int64_t in_features) {
  return 2.0 * static_cast<double>(batch_by_out.elements()) * static_cast<double>(in_features);
}

}  // namespace

std::vector<ValueType> Linear::infer(std::span<const ValueType> inputs) const {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  if (x.rank() < 2 || x.elements(1) != w.elements(1)) {
    throw UsageError(fmt::format("input {} does not fit weights {}: {} features are wanted", x.str(), w.str(),
                                 w.elements(1)));
  }
  return {{inputs[0].dtype, {x[0], w[0]}}};
}

void Linear::differentiate(Backward& backward) const {
  const ValueId dy = backward.output_gradient();
  const bool bias = spec().bias;
  const auto dw =
      backward.add_node(std::make_shared<LinearBackwardWeights>(kernels::LinearBackwardWeights{.bias = bias}),
                        {backward.input(0), dy});
  backward.contribute(1, dw[0]);
  if (bias) backward.contribute(2, dw[1]);
  if (!backward.needs(0)) return;
  const auto dx = backward.add_node(std::make_shared<LinearBackwardData>(), {dy, backward.input(1)});
  backward.contribute(0, dx.front());
}

double Linear::flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const {
  return multiply_adds(outputs[0].shape, inputs[1].shape.elements(1));
}

std::vector<ValueType> LinearBackwardData::infer(std::span<const ValueType> inputs) const {
  Shape dx = inputs[1].shape;
  dx[0] = inputs[0].shape[0];
  return {{inputs[0].dtype, dx}};
}

double LinearBackwardData::flops(std::span<const ValueType> inputs,
                                 std::span<const ValueType> outputs) const {
  return multiply_adds(inputs[0].shape, outputs[0].shape.elements(1));
}

std::vector<ValueType> LinearBackwardWeights::infer(std::span<const ValueType> inputs) const {
  const std::int64_t out_features = inputs[1].shape[1];
  Shape dw = inputs[0].shape;
  dw[0] = out_features;
  std::vector<ValueType> types{{inputs[0].dtype, dw}};
  if (spec().bias) types.push_back({inputs[0].dtype, {out_features}});
  return types;
}

double LinearBackwardWeights::flops(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return multiply_adds(inputs[1].shape, inputs[0].shape.elements(1));
}

}  // namespace lockstep::model
