#include "kernels/conv2d.h"

#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Conv2d;

void differentiate(const Conv2d& op, Backward& backward) {
  const ValueId dy = backward.output_gradient();
  const kernels::Conv2dBackwardWeights weights{.geometry = op.geometry};
  if (backward.has_input(Conv2d::b)) {
    backward.add_gradients(weights, {backward.input(Conv2d::x), dy}, {Conv2d::w, Conv2d::b});
  } else {
    backward.add_gradients(weights, {backward.input(Conv2d::x), dy}, {Conv2d::w});
  }
  const kernels::Conv2dBackwardData data{.geometry = op.geometry};
  backward.add_gradients(data, {dy, backward.input(Conv2d::w)}, {Conv2d::x});
}

/// With sizes up to this one the extents of the output fit 64 bits.
constexpr std::int64_t most_pixels = std::int64_t{1} << 24;

bool is_size(std::int64_t size, std::int64_t least) {
  return size >= least && size <= most_pixels;
}

}  // namespace

Initializer kaiming_normal_fan_out(const Conv2dOptions& o) {
  const std::int64_t fan_out = o.out_channels * o.kernel * o.kernel;
  return {.deviation = fan_out > 0 ? std::sqrt(2.0F / static_cast<float>(fan_out)) : 0.0F};
}

Tensor conv2d(Tensor x, const std::string& name, Conv2dOptions o) {
  Graph& graph = x.graph();
  const bool divides = o.groups > 0 && x.shape().rank() == 4 && x.shape()[1] % o.groups == 0;
  const bool is_window =
      is_size(o.kernel, 1) && is_size(o.stride, 1) && is_size(o.padding, 0) && is_size(o.dilation, 1);
  if (!divides || o.out_channels < 1 || o.out_channels % o.groups != 0 || !is_window) {
    throw UsageError(fmt::format(
        "layer '{}' (conv2d): input {}, {} output channels, {} groups, kernel {}, stride {}, "
        "padding {} and dilation {} do not fit",
        name, x.shape().str(), o.out_channels, o.groups, o.kernel, o.stride, o.padding, o.dilation));
  }
  const std::int64_t channels = x.shape()[1] / o.groups;
  const auto [weight, bias] = initializers(o.initializer, channels * o.kernel * o.kernel);
  std::vector<Tensor> inputs{x, parameter(graph, parameter_name(name, "weight"),
                                          {o.out_channels, channels, o.kernel, o.kernel}, weight)};
  if (o.bias) inputs.push_back(parameter(graph, parameter_name(name, "bias"), {o.out_channels}, bias));
  const kernels::Conv2dGeometry geometry{.stride = {o.stride, o.stride},
                                         .padding = {o.padding, o.padding},
                                         .dilation = {o.dilation, o.dilation},
                                         .groups = o.groups};
  return apply(graph, Conv2d{.geometry = geometry}, differentiate, inputs, name);
}

}  // namespace lockstep::model
