#include "kernels/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernels/base/error.h"
#include "kernels/cuda/dnn_graph.h"

namespace lockstep::kernels {
namespace {

using TensorPtr = DnnGraph::TensorPtr;
using Pass = ConvolutionSpec::Pass;

template <class Attributes>
Attributes window(const Conv2dGeometry& g) {
  return Attributes()
      .set_padding({g.padding[0], g.padding[1]})
      .set_stride({g.stride[0], g.stride[1]})
      .set_dilation({g.dilation[0], g.dilation[1]});
}

/// A vector (C) as a picture of one pixel, which is added to all.
TensorDesc pixel(DType dtype, std::int64_t channels) {
  return {dtype, {1, channels, 1, 1}, Layout::row_major({1, channels, 1, 1})};
}

void add_forward(DnnGraph& call, const ConvolutionSpec& spec) {
  using namespace cudnn_frontend;
  const TensorPtr x = call.input(spec.x);
  const TensorPtr w = call.input(spec.w);
  TensorPtr y = call.pattern().conv_fprop(x, w, window<graph::Conv_fprop_attributes>(spec.geometry));
  if (spec.bias) {
    const TensorPtr b = call.input(pixel(spec.y.dtype, spec.y.shape[1]));
    y = call.pattern().pointwise(y, b, graph::Pointwise_attributes().set_mode(PointwiseMode_t::ADD));
  }
  if (spec.relu) {
    y = call.pattern().pointwise(y, graph::Pointwise_attributes().set_mode(PointwiseMode_t::RELU_FWD));
  }
  call.output(y, spec.y);
}

void add_backward_data(DnnGraph& call, const ConvolutionSpec& spec) {
  const TensorPtr dy = call.input(spec.y);
  const TensorPtr w = call.input(spec.w);
  using Attributes = cudnn_frontend::graph::Conv_dgrad_attributes;
  call.output(call.pattern().conv_dgrad(dy, w, window<Attributes>(spec.geometry)), spec.x);
}

void add_backward_weights(DnnGraph& call, const ConvolutionSpec& spec) {
  const TensorPtr x = call.input(spec.x);
  const TensorPtr dy = call.input(spec.y);
  using Attributes = cudnn_frontend::graph::Conv_wgrad_attributes;
  call.output(call.pattern().conv_wgrad(dy, x, window<Attributes>(spec.geometry)), spec.w);
}

/// Of tensors in f32: bf16 and f16 are for tensor cores.
Precision precision_of(const ConvolutionSpec& spec) {
  return spec.x.dtype == DType::f32 ? spec.precision : Precision::tf32;
}

std::shared_ptr<DnnGraph> graph_of(const ConvolutionSpec& spec, const DescribedGpu* gpu) {
  auto call = std::make_shared<DnnGraph>(spec.x.dtype, gpu);
  switch (spec.pass) {
    case Pass::forward:
      add_forward(*call, spec);
      break;
    case Pass::backward_data:
      add_backward_data(*call, spec);
      break;
    case Pass::backward_weights:
      add_backward_weights(*call, spec);
      break;
  }
  return call;
}

}  // namespace

std::vector<std::string> convolution_plans(const ConvolutionSpec& spec, const DescribedGpu* gpu) {
  const auto call = graph_of(spec, gpu);
  if (!call->list_plans(precision_of(spec), most_workspace_bytes).empty()) return {};
  return call->plans(offered_algorithms);
}

std::shared_ptr<const DnnCall> prepare_convolution(const ConvolutionSpec& spec, const DescribedGpu* gpu,
                                                   const PlanStore* kept) {
  auto call = graph_of(spec, gpu);
  std::string obstacle = call->list_plans(precision_of(spec), most_workspace_bytes);
  if (!obstacle.empty() && spec.plan.empty()) {  // one that takes more is better than none
    call = graph_of(spec, gpu);
    obstacle = call->list_plans(precision_of(spec), std::numeric_limits<std::int64_t>::max());
  }
  if (obstacle.empty()) obstacle = spec.plan.empty() ? call->build_first(kept) : call->build(spec.plan, kept);
  if (obstacle.empty()) return call;
  if (spec.bias || spec.relu) return nullptr;
  obstacle.resize(std::min(obstacle.find('\n'), obstacle.size()));  // then follows a word on each engine
  throw DeviceError(
      fmt::format("cuDNN cannot compute a convolution of x {} ({}) and w {} ({}) in {} groups on this "
                  "GPU: {}",
                  spec.x.shape.str(), spec.x.layout_or_row_major().str(), spec.w.shape.str(),
                  spec.w.layout_or_row_major().str(), spec.geometry.groups, obstacle));
}

std::string dnn_library() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace lockstep::kernels
