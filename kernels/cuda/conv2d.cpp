#include "kernels/conv2d.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/base/error.h"
#include "kernels/check.h"
#include "kernels/cuda/bias_gradient.h"
#include "kernels/cuda/bias_relu.h"
#include "kernels/cuda/channels_last.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/dnn.h"
#include "kernels/product_tensors.h"

namespace lockstep::kernels {
namespace {

using Pass = ConvolutionSpec::Pass;

bool lies_plain(const TensorDesc& desc) {
  return lies_as(Layout::plain(desc.shape), desc);
}
bool lies_channels_last(const TensorDesc& desc) {
  return lies_as(channels_last(desc.shape), desc);
}

/// Weights that have a layout keep it, and the pictures lie as they do: plain weights come with a plan made
/// on another machine.
void lie_alike(TensorDesc& w, TensorDesc& x, TensorDesc& y) {
  if (!w.layout) w.layout = channels_last(w.shape);
  const bool plain = !lies_channels_last(w) && lies_plain(w);
  for (TensorDesc* desc : {&x, &y}) {
    const Layout wanted = plain ? Layout::plain(desc->shape) : channels_last(desc->shape);
    if (!desc->layout || !lies_as(wanted, *desc)) desc->layout = wanted;
  }
}

void lie_plain(TensorDesc& vector) {
  vector.layout = Layout::plain(vector.shape);
}

/// What `tensors_of` has not asked: types, layouts, and the algorithm.
void check_convolution(std::string_view kernel, const ProductTensors& t, const ConvAlgorithm& algorithm) {
  bool all_plain = true;
  bool all_channels_last = true;
  for (const auto& [name, desc] : {std::pair{"x", &t.x}, {"w", &t.w}, {"y", &t.y}}) {
    check_type(kernel, name, *desc, DType::f32);
    all_plain &= lies_plain(*desc);
    all_channels_last &= lies_channels_last(*desc);
  }
  if (!all_plain && !all_channels_last) {
    throw UsageError(
        fmt::format("{}: x lies in {}, w in {}, y in {}: all must be channels-last, or all plain", kernel,
                    t.x.layout_or_plain().str(), t.w.layout_or_plain().str(), t.y.layout_or_plain().str()));
  }
  if (algorithm == ConvAlgorithm::direct || algorithm == ConvAlgorithm::winograd) {
    throw UsageError(fmt::format("{}: on a GPU an algorithm is one of the library's plans", kernel));
  }
}

/// The library tells plain from channels-last by strides alone, also by those of an axis of extent 1, which
/// may be any: all three tensors get those of one form.
template <class Spec>
ConvolutionSpec convolution(Pass pass, const Spec& spec, const ProductTensors& t) {
  const bool last = lies_channels_last(t.x) && lies_channels_last(t.w) && lies_channels_last(t.y);
  const auto in_one_form = [last](const TensorDesc& desc) -> TensorDesc {
    return {desc.dtype, desc.shape, last ? channels_last(desc.shape) : Layout::plain(desc.shape)};
  };
  return {.pass = pass,
          .geometry = spec.geometry,
          .x = in_one_form(t.x),
          .w = in_one_form(t.w),
          .y = in_one_form(t.y),
          .precision = gpu_precision(spec.precision),
          .plan = spec.algorithm.plan};
}

ConvolutionSpec fused_convolution(const Conv2dForward& spec, const ProductTensors& t) {
  ConvolutionSpec fused = convolution(Pass::forward, spec, t);
  fused.bias = spec.bias;
  fused.relu = spec.relu;
  return fused;
}

std::vector<ConvAlgorithm> as_algorithms(const std::vector<std::string>& plans) {
  std::vector<ConvAlgorithm> found;
  for (const std::string& plan : plans) found.emplace_back(plan);
  if (found.empty()) found.push_back(ConvAlgorithm::automatic);
  return found;
}

}  // namespace

void choose_layouts(Cuda, const Conv2dForward& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.inputs[1], io.inputs[0], io.outputs[0]);
  if (spec.bias) lie_plain(io.inputs[2]);
}

void choose_layouts(Cuda, const Conv2dBackwardData& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.inputs[1], io.outputs[0], io.inputs[0]);
}

void choose_layouts(Cuda, const Conv2dBackwardWeights& spec, KernelIo& io) {
  tensors_of(spec, io);
  lie_alike(io.outputs[0], io.inputs[0], io.inputs[1]);
  if (spec.bias) lie_plain(io.outputs[1]);
}

KernelPtr prepare(Cuda, const Conv2dForward& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  check_convolution("conv2d_forward", t, spec.algorithm);
  if (const auto call = prepare_convolution(fused_convolution(spec, t))) {
    const auto run = [call, operands = spec.bias ? 4U : 3U](const Addresses& a, cudaStream_t stream) {
      const std::array<void*, 4> all{a.at<void>(0), a.at<void>(1), a.at<void>(2), a.at<void>(3)};
      call->launch(std::span(all).first(operands), a.workspace<void>(), stream);
    };
    return cuda_kernel(run, call->workspace_bytes());
  }
  const auto call = prepare_convolution(convolution(Pass::forward, spec, t));
  const auto run = [call, spec, after = BiasRelu(t.y, spec.relu)](const Addresses& a, cudaStream_t stream) {
    auto* const y = a.at(spec.bias ? 3 : 2);
    call->launch(std::array<void*, 3>{a.at<void>(0), a.at<void>(1), y}, a.workspace<void>(), stream);
    after.launch(spec.bias ? a.at(2) : nullptr, y, stream);
  };
  return cuda_kernel(run, call->workspace_bytes());
}

KernelPtr prepare(Cuda, const Conv2dBackwardData& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  check_convolution("conv2d_backward_data", t, spec.algorithm);
  const auto call = prepare_convolution(convolution(Pass::backward_data, spec, t));
  const auto run = [call](const Addresses& a, cudaStream_t stream) {
    call->launch(std::array<void*, 3>{a.at<void>(0), a.at<void>(1), a.at<void>(2)}, a.workspace<void>(),
                 stream);
  };
  return cuda_kernel(run, call->workspace_bytes());
}

KernelPtr prepare(Cuda, const Conv2dBackwardWeights& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  check_convolution("conv2d_backward_weights", t, spec.algorithm);
  const auto call = prepare_convolution(convolution(Pass::backward_weights, spec, t));
  const BiasGradient bias_gradient(t.y);
  const auto run = [call, bias_gradient, bias = spec.bias](const Addresses& a, cudaStream_t stream) {
    call->launch(std::array<void*, 3>{a.at<void>(0), a.at<void>(1), a.at<void>(2)}, a.workspace<void>(),
                 stream);
    if (bias) bias_gradient.launch(a.at(1), a.at(3), a.workspace<void>(), stream);
  };
  // One after the other in their stream, so they share the workspace.
  return cuda_kernel(run, std::max(call->workspace_bytes(), spec.bias ? bias_gradient.workspace_bytes() : 0));
}

std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dForward& spec, const KernelIo& io) {
  const ProductTensors t = tensors_of(spec, io);
  auto plans = convolution_plans(fused_convolution(spec, t));
  if (plans.empty()) plans = convolution_plans(convolution(Pass::forward, spec, t));
  return as_algorithms(plans);
}
std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dBackwardData& spec, const KernelIo& io) {
  return as_algorithms(convolution_plans(convolution(Pass::backward_data, spec, tensors_of(spec, io))));
}
std::vector<ConvAlgorithm> algorithms(Cuda, const Conv2dBackwardWeights& spec, const KernelIo& io) {
  return as_algorithms(convolution_plans(convolution(Pass::backward_weights, spec, tensors_of(spec, io))));
}

}  // namespace lockstep::kernels
