#include "model/ops/relu.h"

#include "model/backward.h"

namespace lockstep::model {

std::vector<ValueType> Relu::infer(std::span<const ValueType> inputs) const {
  return {inputs[0]};
}

void Relu::differentiate(Backward& backward) const {
  if (!backward.needs(0)) return;
  const auto dx =
      backward.add_node(std::make_shared<ReluBackward>(), {backward.output(), backward.output_gradient()});
  backward.contribute(0, dx.front());
}

std::vector<ValueType> ReluBackward::infer(std::span<const ValueType> inputs) const {
  return {inputs[1]};
}

}  // namespace lockstep::model
