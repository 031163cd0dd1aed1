#include "model/ops/pool2d.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/backward.h"

namespace lockstep::model {
namespace {

ValueType pooled(const ValueType& input, const kernels::Pool2dGeometry& g) {
  const Shape& x = input.shape;
  if (x.rank() != 4) throw UsageError(fmt::format("input {}: images (N, C, H, W) are wanted", x.str()));
  Shape y = x;
  for (const std::size_t axis : {std::size_t{0}, std::size_t{1}}) {
    if (2 * g.padding[axis] > g.kernel[axis]) {
      throw UsageError(
          fmt::format("padding {} is more than half of the window {}", g.padding[axis], g.kernel[axis]));
    }
    y[axis + 2] = (x[axis + 2] + 2 * g.padding[axis] - g.kernel[axis]) / g.stride[axis] + 1;
    if (x[axis + 2] + 2 * g.padding[axis] < g.kernel[axis]) {
      throw UsageError(
          fmt::format("input {} is smaller than the window {}x{}", x.str(), g.kernel[0], g.kernel[1]));
    }
  }
  return {input.dtype, y};
}

std::string window(const kernels::Pool2dGeometry& g) {
  return fmt::format("{}x{}", g.kernel[0], g.kernel[1]);
}

}  // namespace

std::string MaxPool2d::attributes() const {
  return window(spec().geometry);
}

std::vector<ValueType> MaxPool2d::infer(std::span<const ValueType> inputs) const {
  return {pooled(inputs[0], spec().geometry)};
}

void MaxPool2d::differentiate(Backward& backward) const {
  if (!backward.needs(0)) return;
  const kernels::MaxPool2dBackward spec_backward{.geometry = spec().geometry};
  const auto dx = backward.add_node(std::make_shared<MaxPool2dBackward>(spec_backward),
                                    {backward.input(0), backward.output_gradient()});
  backward.contribute(0, dx.front());
}

std::string AvgPool2d::attributes() const {
  return window(spec().geometry);
}

std::vector<ValueType> AvgPool2d::infer(std::span<const ValueType> inputs) const {
  return {pooled(inputs[0], spec().geometry)};
}

void AvgPool2d::differentiate(Backward& backward) const {
  if (!backward.needs(0)) return;
  const kernels::AvgPool2dBackward spec_backward{.geometry = spec().geometry};
  const auto dx = backward.add_node(
      std::make_shared<AvgPool2dBackward>(spec_backward, backward.type(backward.input(0)).shape),
      {backward.output_gradient()});
  backward.contribute(0, dx.front());
}

}  // namespace lockstep::model
