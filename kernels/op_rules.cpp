#include "kernels/op_rules.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/check.h"

namespace lockstep::kernels {
namespace {

void check_predictions(std::string_view kernel, const KernelIo& io, bool gradient) {
  check_count(kernel, io, 3, gradient ? 2 : 1);
  const TensorDesc& predictions = io.inputs[0];
  check_rank(kernel, "the predictions", predictions, 2);
  check_type(kernel, "the predictions", predictions, DType::f32);
  check_plain(kernel, "the predictions", predictions);
  if (gradient) {
    check_shape(kernel, "the gradient", io.outputs[0], predictions.shape);
    check_type(kernel, "the gradient", io.outputs[0], DType::f32);
    check_plain(kernel, "the gradient", io.outputs[0]);
  }
}

}  // namespace

std::int64_t check_elementwise(std::string_view kernel, const KernelIo& io, std::size_t inputs) {
  check_count(kernel, io, inputs, 1);
  const Layout layout = io.inputs[0].layout_or_plain();
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      check_shape(kernel, "a tensor", desc, io.inputs[0].shape);
      check_type(kernel, "a tensor", desc, DType::f32);
      if (desc.layout_or_plain() == layout) continue;
      throw UsageError(
          fmt::format("{}: {} and {} lie differently", kernel, layout.str(), desc.layout_or_plain().str()));
    }
  }
  return layout.span();
}

std::int64_t check_update(std::string_view kernel, const KernelIo& io, std::size_t outputs) {
  check_count(kernel, io, 2, outputs);
  const TensorDesc& gradient = io.inputs[0];
  check_type(kernel, "gradient", gradient, DType::f32);
  for (const TensorDesc& desc : io.outputs) {
    check_type(kernel, "parameter or state", desc, DType::f32);
    if (desc.bytes() == gradient.bytes()) continue;
    throw UsageError(fmt::format("{}: gradient {} and parameter or state {} differ in size", kernel,
                                 gradient.shape.str(), desc.shape.str()));
  }
  return static_cast<std::int64_t>(gradient.bytes() / sizeof(float));
}

std::int64_t check_gradient_norm(const KernelIo& io) {
  check_count("gradient_norm", io, 1, 2);
  check_type("gradient_norm", "gradients", io.inputs[0], DType::f32);
  return static_cast<std::int64_t>(io.inputs[0].bytes() / sizeof(float));
}

void check_cross_entropy(std::string_view kernel, const KernelIo& io, bool gradient) {
  check_predictions(kernel, io, gradient);
  check_shape(kernel, "targets", io.inputs[1], {io.inputs[0].shape[0]});
  check_type(kernel, "targets", io.inputs[1], DType::i64);
}

void check_squared_error(std::string_view kernel, const KernelIo& io, bool gradient) {
  check_predictions(kernel, io, gradient);
  check_shape(kernel, "targets", io.inputs[1], io.inputs[0].shape);
  check_type(kernel, "targets", io.inputs[1], DType::f32);
  check_plain(kernel, "targets", io.inputs[1]);
}

}  // namespace lockstep::kernels
