#include "model/ops/reshape.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/backward.h"

namespace lockstep::model {

std::vector<ValueType> Reshape::infer(std::span<const ValueType> inputs) const {
  if (inputs[0].shape.elements() != shape_.elements()) {
    throw UsageError(
        fmt::format("{} does not have as many elements as {}", inputs[0].shape.str(), shape_.str()));
  }
  return {{inputs[0].dtype, shape_}};
}

void Reshape::differentiate(Backward& backward) const {
  if (!backward.needs(0)) return;
  const Shape back = backward.type(backward.input(0)).shape;
  const auto dx = backward.add_node(std::make_shared<Reshape>(back), {backward.output_gradient()});
  backward.contribute(0, dx.front());
}

}  // namespace lockstep::model
