#include "model/layers.h"

#include <cmath>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/ops/add.h"
#include "model/ops/conv2d.h"
#include "model/ops/linear.h"
#include "model/ops/pool2d.h"
#include "model/ops/relu.h"
#include "model/ops/reshape.h"

namespace lockstep::model {
namespace {

/// torch.nn's reset_parameters: kaiming_uniform with a = sqrt(5) is uniform in +-1/sqrt(fan_in), as is the
/// bias.
Initializer uniform_by_fan_in(std::int64_t fan_in) {
  return {.bound = fan_in > 0 ? 1.0F / std::sqrt(static_cast<float>(fan_in)) : 0.0F};
}

Tensor apply(OpPtr op, Tensor x, std::vector<ValueId> inputs, const std::string& layer) {
  return {x.graph(), x.graph().add_node(std::move(op), std::move(inputs), layer).front()};
}

/// Integers would be read as the bits of floating-point numbers.
void require_f32(const Tensor& x, const std::string& layer, const char* op) {
  if (x.dtype() == DType::f32) return;
  throw UsageError(fmt::format("layer '{}' ({}): wants inputs of f32, got {} ({}): save them as f32", layer,
                               op, name_of(x.dtype()), x.shape().str()));
}

/// A network that is one bare layer has parameters without a prefix, as nn.Linear alone has in PyTorch.
std::string parameter_name(const std::string& layer, const char* parameter) {
  return layer.empty() ? parameter : layer + "." + parameter;
}

kernels::Pool2dGeometry pool_geometry(const PoolOptions& options) {
  const std::int64_t stride = options.stride == 0 ? options.kernel : options.stride;
  return {.kernel = {options.kernel, options.kernel},
          .stride = {stride, stride},
          .padding = {options.padding, options.padding}};
}

}  // namespace

Tensor linear(Tensor x, const std::string& name, std::int64_t out_features, LinearOptions options) {
  require_f32(x, name, "linear");
  Graph& graph = x.graph();
  const Tensor rows = x.shape().rank() > 2 ? flatten(x) : x;
  if (rows.shape().rank() != 2 || out_features < 1) {
    throw UsageError(fmt::format("layer '{}' (linear): input {} and {} output features do not make a matrix",
                                 name, x.shape().str(), out_features));
  }
  const std::int64_t in_features = rows.shape()[1];
  const Initializer initializer = uniform_by_fan_in(in_features);
  std::vector<ValueId> inputs{rows.id(), graph.add_parameter(parameter_name(name, "weight"),
                                                             {out_features, in_features}, initializer)};
  if (options.bias)
    inputs.push_back(graph.add_parameter(parameter_name(name, "bias"), {out_features}, initializer));
  return apply(std::make_shared<Linear>(kernels::LinearForward{.bias = options.bias, .relu = false}), x,
               std::move(inputs), name);
}

Tensor conv2d(Tensor x, const std::string& name, Conv2dOptions o) {
  require_f32(x, name, "conv2d");
  Graph& graph = x.graph();
  const bool divides = o.groups > 0 && x.shape().rank() == 4 && x.shape()[1] % o.groups == 0;
  if (!divides || o.out_channels < 1 || o.out_channels % o.groups != 0 || o.stride < 1 || o.kernel < 1) {
    throw UsageError(
        fmt::format("layer '{}' (conv2d): input {}, {} output channels, {} groups, kernel {} and "
                    "stride {} do not fit",
                    name, x.shape().str(), o.out_channels, o.groups, o.kernel, o.stride));
  }
  const std::int64_t channels = x.shape()[1] / o.groups;
  const Initializer initializer = uniform_by_fan_in(channels * o.kernel * o.kernel);
  std::vector<ValueId> inputs{
      x.id(), graph.add_parameter(parameter_name(name, "weight"),
                                  {o.out_channels, channels, o.kernel, o.kernel}, initializer)};
  if (o.bias)
    inputs.push_back(graph.add_parameter(parameter_name(name, "bias"), {o.out_channels}, initializer));
  const kernels::Conv2dGeometry geometry{.stride = {o.stride, o.stride},
                                         .padding = {o.padding, o.padding},
                                         .dilation = {o.dilation, o.dilation},
                                         .groups = o.groups};
  return apply(std::make_shared<Conv2d>(kernels::Conv2dForward{.geometry = geometry, .bias = o.bias}), x,
               std::move(inputs), name);
}

Tensor max_pool2d(Tensor x, PoolOptions options) {
  require_f32(x, "max_pool2d", "max_pool2d");
  const kernels::MaxPool2dForward spec{pool_geometry(options)};
  return apply(std::make_shared<MaxPool2d>(spec), x, {x.id()}, "max_pool2d");
}

Tensor avg_pool2d(Tensor x, PoolOptions options) {
  require_f32(x, "avg_pool2d", "avg_pool2d");
  const kernels::AvgPool2dForward spec{pool_geometry(options)};
  return apply(std::make_shared<AvgPool2d>(spec), x, {x.id()}, "avg_pool2d");
}

Tensor relu(Tensor x) {
  require_f32(x, "relu", "relu");
  return apply(std::make_shared<Relu>(), x, {x.id()}, "relu");
}

Tensor add(Tensor a, Tensor b) {
  for (const Tensor& x : {a, b}) require_f32(x, "add", "add");
  return apply(std::make_shared<Add>(), a, {a.id(), b.id()}, "add");
}

Tensor flatten(Tensor x) {
  if (x.shape().rank() < 2) {
    throw UsageError(fmt::format("flatten wants a batch of something, not {}", x.shape().str()));
  }
  const Shape flat{x.shape()[0], x.shape().elements(1)};
  return apply(std::make_shared<Reshape>(flat), x, {x.id()}, "flatten");
}

}  // namespace lockstep::model
