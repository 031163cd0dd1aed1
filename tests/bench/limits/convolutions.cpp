#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tests/bench/limits/comparison.h"
#include "tests/bench/limits/onednn_convolution.h"

namespace lockstep::bench {
namespace {

using namespace kernels;
using Result = Convolution::Result;

TensorType type_of(const TensorDesc& desc) {
  return {desc.dtype, desc.shape};
}

/// The node as a convolution; none for anything else.
std::optional<Convolution> convolution_of(const model::Op& op, const KernelIo& io) {
  const auto in = [&](std::size_t at) { return type_of(io.inputs[at]); };
  const auto out = [&](std::size_t at) { return type_of(io.outputs[at]); };
  if (const auto* forward = op.as<Conv2d>()) {
    return Convolution{.result = Result::y,
                       .x = in(Conv2d::x),
                       .w = in(Conv2d::w),
                       .y = out(Conv2d::y),
                       .geometry = forward->geometry,
                       .bias = io.inputs.size() > Conv2d::b,
                       .activation = forward->activation};
  }
  if (const auto* data = op.as<Conv2dBackwardData>()) {
    using Data = Conv2dBackwardData;
    return Convolution{.result = Result::x,
                       .x = out(Data::dx),
                       .w = in(Data::w),
                       .y = in(Data::dy),
                       .geometry = data->geometry};
  }
  if (const auto* weights = op.as<Conv2dBackwardWeights>()) {
    using Weights = Conv2dBackwardWeights;
    return Convolution{.result = Result::w,
                       .x = in(Weights::x),
                       .w = out(Weights::dw),
                       .y = in(Weights::dy),
                       .geometry = weights->geometry,
                       .bias = io.outputs.size() > Weights::db};
  }
  return std::nullopt;
}

using Pair = std::array<std::int64_t, 2>;

/// Nothing where both are `usual`.
std::string describe(std::string_view word, const Pair& values, std::int64_t usual) {
  const auto [height, width] = values;
  if (height == usual && width == usual) return "";
  return height == width ? fmt::format("{} {}", word, height) : fmt::format("{} {}x{}", word, height, width);
}

/// Has all that its time follows from: equal ones are measured once.
std::string describe(const Convolution& convolution) {
  constexpr const char* names[] = {"forward", "data", "weights"};
  const Conv2dGeometry& geometry = convolution.geometry;
  return fmt::format("{:<8} {} * {}{}{}{}{}{}{}", names[static_cast<int>(convolution.result)],
                     convolution.x.shape.str(), convolution.w.shape.str(), describe(" /", geometry.stride, 1),
                     geometry.groups > 1 ? fmt::format(" in {} groups", geometry.groups) : "",
                     describe(", padding", geometry.padding, 0), describe(", dilation", geometry.dilation, 1),
                     convolution.bias ? ", bias" : "",
                     convolution.activation == Activation::relu ? ", relu" : "");
}

}  // namespace

Comparisons convolutions_of(const model::Op& op, const KernelIo& io, Device& device) {
  const auto convolution = convolution_of(op, io);
  if (!convolution) return {};
  return {{.what = describe(*convolution),
           .dtype = convolution->x.dtype,
           .flops = op.flops(types_of(io.inputs), types_of(io.outputs)),
           .ours = [&op, io, &device] { return seconds_of_kernel(op, io, device); },
           .onednn = [convolution] { return onednn_seconds(*convolution); }}};
}

}  // namespace lockstep::bench
