#include "kernels/product_tensors.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/check.h"

namespace lockstep::kernels {
namespace {

void check_linear(std::string_view kernel, const ProductTensors& t) {
  const Shape& x = t.x.shape;
  const Shape& w = t.w.shape;
  bool fits = x.rank() == w.rank() && (x.rank() == 2 || x.rank() == 4);
  for (std::size_t axis = 1; fits && axis < x.rank(); ++axis) fits = x[axis] == w[axis];
  if (!fits) throw UsageError(fmt::format("{}: w {} does not fit x {}", kernel, w.str(), x.str()));
  check_shape(kernel, "y", t.y, {x[0], w[0]});
  if (t.b != nullptr) check_shape(kernel, "b", *t.b, {w[0]});
}

std::int64_t output_extent(const Conv2dGeometry& g, std::int64_t in, std::int64_t kernel, std::size_t axis) {
  const std::int64_t reach = g.dilation[axis] * (kernel - 1) + 1;
  return (in + 2 * g.padding[axis] - reach) / g.stride[axis] + 1;
}

void check_conv2d(std::string_view kernel, const Conv2dGeometry& g, const ProductTensors& t) {
  check_rank(kernel, "x", t.x, 4);
  check_rank(kernel, "w", t.w, 4);
  const Shape& x = t.x.shape;
  const Shape& w = t.w.shape;
  if (g.groups < 1 || w[1] * g.groups != x[1] || w[0] % g.groups != 0) {
    throw UsageError(
        fmt::format("{}: w {} in {} groups does not fit x {}", kernel, w.str(), g.groups, x.str()));
  }
  const Shape y{x[0], w[0], output_extent(g, x[2], w[2], 0), output_extent(g, x[3], w[3], 1)};
  if (y[2] < 1 || y[3] < 1) {
    throw UsageError(fmt::format("{}: the window of w {} is larger than x {}", kernel, w.str(), x.str()));
  }
  check_shape(kernel, "y", t.y, y);
  if (t.b != nullptr) check_shape(kernel, "b", *t.b, {w[0]});
}

ProductTensors forward(std::string_view kernel, bool bias, const KernelIo& io) {
  check_count(kernel, io, bias ? 3 : 2, 1);
  return {io.inputs[0], io.inputs[1], bias ? &io.inputs[2] : nullptr, io.outputs[0]};
}

ProductTensors backward_data(std::string_view kernel, const KernelIo& io) {
  check_count(kernel, io, 2, 1);
  return {io.outputs[0], io.inputs[1], nullptr, io.inputs[0]};
}

ProductTensors backward_weights(std::string_view kernel, bool bias, const KernelIo& io) {
  check_count(kernel, io, 2, bias ? 2 : 1);
  return {io.inputs[0], io.outputs[0], bias ? &io.outputs[1] : nullptr, io.inputs[1]};
}

}  // namespace

ProductTensors tensors_of(const LinearForward& spec, const KernelIo& io) {
  const ProductTensors t = forward("linear_forward", spec.bias, io);
  check_linear("linear_forward", t);
  return t;
}

ProductTensors tensors_of(const LinearBackwardData&, const KernelIo& io) {
  const ProductTensors t = backward_data("linear_backward_data", io);
  check_linear("linear_backward_data", t);
  return t;
}

ProductTensors tensors_of(const LinearBackwardWeights& spec, const KernelIo& io) {
  const ProductTensors t = backward_weights("linear_backward_weights", spec.bias, io);
  check_linear("linear_backward_weights", t);
  return t;
}

ProductTensors tensors_of(const Conv2dForward& spec, const KernelIo& io) {
  const ProductTensors t = forward("conv2d_forward", spec.bias, io);
  check_conv2d("conv2d_forward", spec.geometry, t);
  return t;
}

ProductTensors tensors_of(const Conv2dBackwardData& spec, const KernelIo& io) {
  const ProductTensors t = backward_data("conv2d_backward_data", io);
  check_conv2d("conv2d_backward_data", spec.geometry, t);
  return t;
}

ProductTensors tensors_of(const Conv2dBackwardWeights& spec, const KernelIo& io) {
  const ProductTensors t = backward_weights("conv2d_backward_weights", spec.bias, io);
  check_conv2d("conv2d_backward_weights", spec.geometry, t);
  return t;
}

}  // namespace lockstep::kernels
