#include "model/ops/conv2d.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "model/backward.h"

namespace lockstep::model {
namespace {

std::int64_t output_extent(std::int64_t in, std::int64_t kernel, const kernels::Conv2dGeometry& g,
                           std::size_t axis) {
  return (in + 2 * g.padding[axis] - g.dilation[axis] * (kernel - 1) - 1) / g.stride[axis] + 1;
}

/// Every output element takes a product and a sum per weight of its filter; the same in all three directions.
double multiply_adds(const Shape& y, const Shape& w) {
  return 2.0 * static_cast<double>(y.elements()) * static_cast<double>(w.elements(1));
}

std::string name_of(const kernels::ConvAlgorithm& algorithm) {
  switch (algorithm.kind) {
    case kernels::ConvAlgorithm::direct:
      return "direct";
    case kernels::ConvAlgorithm::winograd:
      return "winograd";
    case kernels::ConvAlgorithm::library_plan:
      return algorithm.plan;
    case kernels::ConvAlgorithm::automatic:
      break;
  }
  return "automatic";
}

/// For the printed plan.
std::string attribute_of(const kernels::ConvAlgorithm& algorithm) {
  return algorithm == kernels::ConvAlgorithm::automatic ? std::string() : name_of(algorithm);
}

/// `make(spec)` for each algorithm of the device but the one in use.
template <class Spec, class Make>
std::vector<OpPtr> other_algorithms(const kernels::Device& device, const Spec& spec,
                                    const kernels::KernelIo& io, Make make) {
  std::vector<OpPtr> ops;
  for (const kernels::ConvAlgorithm& algorithm : kernels::algorithms(device, spec, io)) {
    if (algorithm == spec.algorithm) continue;
    Spec other = spec;
    other.algorithm = algorithm;
    ops.push_back(make(other));
  }
  return ops;
}

}  // namespace

std::string Conv2d::attributes() const {
  const auto& g = spec().geometry;
  std::string text;
  if (g.stride[0] != 1 || g.stride[1] != 1) text += fmt::format(" stride {}x{}", g.stride[0], g.stride[1]);
  if (g.padding[0] != 0 || g.padding[1] != 0) text += fmt::format(" pad {}x{}", g.padding[0], g.padding[1]);
  if (g.groups != 1) text += fmt::format(" groups {}", g.groups);
  if (spec().relu) text += " +relu";
  if (const std::string chosen = attribute_of(spec().algorithm); !chosen.empty()) text += " " + chosen;
  return text.empty() ? text : text.substr(1);
}

std::vector<ValueType> Conv2d::infer(std::span<const ValueType> inputs) const {
  const Shape& x = inputs[0].shape;
  const Shape& w = inputs[1].shape;
  const auto& g = spec().geometry;
  if (x.rank() != 4 || w.rank() != 4 || x[1] != w[1] * g.groups) {
    throw UsageError(
        fmt::format("input {} does not fit weights {} in {} groups: images (N, C, H, W) with {} "
                    "channels are wanted",
                    x.str(), w.str(), g.groups, w[1] * g.groups));
  }
  const Shape y{x[0], w[0], output_extent(x[2], w[2], g, 0), output_extent(x[3], w[3], g, 1)};
  if (y[2] < 1 || y[3] < 1) {
    throw UsageError(fmt::format("input {} is smaller than the {}x{} kernel", x.str(), w[2], w[3]));
  }
  return {{inputs[0].dtype, y}};
}

void Conv2d::differentiate(Backward& backward) const {
  const ValueId x = backward.input(0);
  const ValueId w = backward.input(1);
  const ValueId dy = backward.output_gradient();
  const kernels::Conv2dBackwardWeights weights{.geometry = spec().geometry, .bias = spec().bias};
  const auto dw =
      backward.add_node(std::make_shared<Conv2dBackwardWeights>(weights, backward.type(w).shape), {x, dy});
  backward.contribute(1, dw[0]);
  if (spec().bias) backward.contribute(2, dw[1]);
  if (!backward.needs(0)) return;
  const kernels::Conv2dBackwardData data{.geometry = spec().geometry};
  const auto dx =
      backward.add_node(std::make_shared<Conv2dBackwardData>(data, backward.type(x).shape), {dy, w});
  backward.contribute(0, dx.front());
}

double Conv2d::flops(std::span<const ValueType> inputs, std::span<const ValueType> outputs) const {
  return multiply_adds(outputs[0].shape, inputs[1].shape);
}

std::vector<OpPtr> Conv2d::variants(const kernels::Device& device, const kernels::KernelIo& io) const {
  return other_algorithms(device, spec(), io, [](const auto& s) { return std::make_shared<Conv2d>(s); });
}

std::string Conv2d::algorithm() const {
  return name_of(spec().algorithm);
}

std::string Conv2dBackwardData::attributes() const {
  return attribute_of(spec().algorithm);
}

std::vector<ValueType> Conv2dBackwardData::infer(std::span<const ValueType> inputs) const {
  return {{inputs[0].dtype, dx_}};
}

double Conv2dBackwardData::flops(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return multiply_adds(inputs[0].shape, inputs[1].shape);
}

std::vector<OpPtr> Conv2dBackwardData::variants(const kernels::Device& device,
                                                const kernels::KernelIo& io) const {
  return other_algorithms(device, spec(), io,
                          [this](const auto& s) { return std::make_shared<Conv2dBackwardData>(s, dx_); });
}

std::string Conv2dBackwardData::algorithm() const {
  return name_of(spec().algorithm);
}

std::string Conv2dBackwardWeights::attributes() const {
  return attribute_of(spec().algorithm);
}

std::vector<ValueType> Conv2dBackwardWeights::infer(std::span<const ValueType> inputs) const {
  std::vector<ValueType> types{{inputs[0].dtype, dw_}};
  if (spec().bias) types.push_back({inputs[0].dtype, {dw_[0]}});
  return types;
}

double Conv2dBackwardWeights::flops(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return multiply_adds(inputs[1].shape, dw_);
}

std::vector<OpPtr> Conv2dBackwardWeights::variants(const kernels::Device& device,
                                                   const kernels::KernelIo& io) const {
  return other_algorithms(device, spec(), io,
                          [this](const auto& s) { return std::make_shared<Conv2dBackwardWeights>(s, dw_); });
}

std::string Conv2dBackwardWeights::algorithm() const {
  return name_of(spec().algorithm);
}

}  // namespace lockstep::model
