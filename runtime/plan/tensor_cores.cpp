#include "runtime/plan/tensor_cores.h"

#include <fmt/format.h>

#include "kernels/conv2d.h"
#include "kernels/linear.h"

namespace lockstep::runtime {
namespace {

constexpr std::int64_t factors_a_word = 4;

class Misses {
 public:
  void look_at(const std::string& layer, std::int64_t extent, std::string_view what) {
    const std::int64_t rest = extent % factors_a_word;
    if (rest == 0) return;
    found.push_back(
        fmt::format("{}: {} {} ({} is faster)", layer, extent, what, extent - rest + factors_a_word));
  }

  std::vector<std::string> found;
};

}  // namespace

std::vector<std::string> tensor_core_misses(const model::Graph& graph) {
  Misses misses;
  for (const model::Node& node : graph.nodes()) {
    const auto* conv = node.op->as<kernels::Conv2d>();
    const bool linear = node.op->as<kernels::Linear>() != nullptr;
    if (conv == nullptr && !linear) continue;
    const std::string layer = node.layer.empty() ? node.op->name() : node.layer;
    const Shape& w = graph.value(node.inputs[1]).type.shape;
    if (linear) {
      misses.look_at(layer, w.elements(1), "input features");
      misses.look_at(layer, w[0], "output features");
      continue;
    }
    const bool grouped = conv->geometry.groups > 1;
    misses.look_at(layer, w[1], grouped ? "input channels of a group" : "input channels");
    misses.look_at(layer, w[0] / conv->geometry.groups,
                   grouped ? "output channels of a group" : "output channels");
  }
  return misses.found;
}

}  // namespace lockstep::runtime
