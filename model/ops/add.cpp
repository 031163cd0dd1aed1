#include "model/ops/add.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/backward.h"

namespace lockstep::model {

std::vector<ValueType> Add::infer(std::span<const ValueType> inputs) const {
  if (inputs[0] != inputs[1]) {
    throw UsageError(fmt::format("shapes {} and {} differ", inputs[0].shape.str(), inputs[1].shape.str()));
  }
  return {inputs[0]};
}

void Add::differentiate(Backward& backward) const {
  for (const std::size_t input : {std::size_t{0}, std::size_t{1}}) {
    if (backward.needs(input)) backward.contribute(input, backward.output_gradient());
  }
}

}  // namespace lockstep::model
