#include "model/backward.h"

#include "model/ops/add.h"

namespace lockstep::model {

std::vector<ValueId> Backward::add_node(OpPtr op, std::vector<ValueId> inputs) {
  std::vector<ValueId> outputs =
      graph_.add_node(std::move(op), std::move(inputs), node_.layer, Phase::backward);
  gradients_.resize(graph_.value_count(), no_value);
  return outputs;
}

void Backward::contribute(std::size_t input_index, ValueId gradient) {
  const auto at = static_cast<std::size_t>(node_.inputs[input_index]);
  gradients_[at] = gradients_[at] == no_value
                       ? gradient
                       : add_node(std::make_shared<Add>(), {gradients_[at], gradient}).front();
}

}  // namespace lockstep::model
