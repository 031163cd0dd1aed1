#include "kernels/cuda/built_convolutions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>

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

/// The plans of one description on one machine, by their names.
class ByName final : public PlanStore {
 public:
  ByName(const PlanStore& all, std::string prefix) : all_(all), prefix_(std::move(prefix)) {}

  std::optional<std::string> find(const std::string& plan) const override {
    return all_.find(prefix_ + plan);
  }
  void keep(const std::string& plan, const std::string& text) const override {
    all_.keep(prefix_ + plan, text);
  }

 private:
  const PlanStore& all_;
  const std::string prefix_;
};

}  // namespace

void BuiltConvolutions::keep_in(std::shared_ptr<const PlanStore> store, std::string machine) {
  const std::lock_guard lock(mutex_);
  store_ = std::move(store);
  machine_ = std::move(machine);
}

std::shared_ptr<const DnnCall> BuiltConvolutions::prepare(const ConvolutionSpec& spec) {
  const std::string description = description_of(spec);
  const std::string key = description + ' ' + spec.plan;
  const std::lock_guard lock(mutex_);
  if (const auto found = built_.find(key); found != built_.end()) return found->second;
  std::optional<ByName> kept;
  if (store_ != nullptr) kept.emplace(*store_, machine_ + ": " + description + ' ');
  return built_.emplace(key, prepare_convolution(spec, gpu_, kept ? &*kept : nullptr)).first->second;
}

std::vector<std::string> BuiltConvolutions::plans(const ConvolutionSpec& spec) {
  const std::string key = description_of(spec);
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(key);
  return found != offered_.end() ? found->second
                                 : offered_.emplace(key, convolution_plans(spec, gpu_)).first->second;
}

}  // namespace lockstep::kernels
