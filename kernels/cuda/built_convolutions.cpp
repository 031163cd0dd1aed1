#include "kernels/cuda/built_convolutions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::kernels {
namespace {

/// All that a plan depends on, but for its name.
std::string description_of(const ConvolutionSpec& spec) {
  const Conv2dGeometry& g = spec.geometry;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {}", static_cast<int>(spec.pass), g.stride, g.padding, g.dilation,
                  g.groups, spec.bias, spec.relu, static_cast<int>(spec.precision));
  for (const TensorDesc* desc : {&spec.x, &spec.w, &spec.y}) {
    text += fmt::format(" {} {}", desc->type().str(), desc->layout_or_row_major().strides.str());
  }
  return text;
}

}  // namespace

std::shared_ptr<const DnnCall> BuiltConvolutions::prepare(const ConvolutionSpec& spec) {
  const std::string key = description_of(spec) + ' ' + spec.plan;
  const std::lock_guard lock(mutex_);
  const auto found = built_.find(key);
  return found != built_.end() ? found->second
                               : built_.emplace(key, prepare_convolution(spec, gpu_)).first->second;
}

std::vector<std::string> BuiltConvolutions::plans(const ConvolutionSpec& spec) {
  const std::string key = description_of(spec);
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(key);
  return found != offered_.end() ? found->second
                                 : offered_.emplace(key, convolution_plans(spec, gpu_)).first->second;
}

}  // namespace lockstep::kernels
