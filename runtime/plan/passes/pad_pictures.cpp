#include <algorithm>

#include "kernels/cast.h"
#include "kernels/conv2d.h"
#include "kernels/gather_rows.h"
#include "kernels/pictures.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Role;
using model::ValueId;
using Conv = kernels::Conv2d;

/// What a tensor core loads of a pixel at once, in a half type.
constexpr std::int64_t whole_channels = 8;

/// Whether `id` is the step's pictures, converted at most: no gradient of it is wanted.
bool is_picture(const Graph& graph, ValueId id) {
  for (auto writer = graph.producer(id); writer; writer = graph.producer(id)) {
    const Node& node = graph.nodes()[*writer];
    const bool is_fed = node.op->as<kernels::PicturesToFloats>() || node.op->as<kernels::GatherRows>();
    if (node.op->as<kernels::Cast>() == nullptr && !is_fed) return false;
    id = node.inputs[0];
  }
  return graph.value(id).role == Role::input;
}

bool wants_padding(const Graph& graph, const Node& node) {
  const auto* const conv = node.op->as<Conv>();
  if (conv == nullptr || conv->geometry.groups != 1) return false;
  const model::ValueType& x = graph.value(node.inputs[Conv::x]).type;
  const std::int64_t channels = x.shape[1];
  return is_half(x.dtype) && channels > 1 && channels < whole_channels &&
         is_picture(graph, node.inputs[Conv::x]);
}

/// Whether nothing but convolutions and their gradients sees how the weights lie.
bool read_by_convolutions(const Graph& graph, ValueId weights) {
  return std::ranges::all_of(graph.nodes(), [&](const Node& node) {
    return std::ranges::count(node.inputs, weights) == 0 || node.op->as<Conv>() != nullptr;
  });
}

}  // namespace

void pad_pictures(Graph& graph) {
  for (const model::Parameter& parameter : graph.parameters()) {
    const ValueId weights = parameter.copy == model::no_value ? parameter.value : parameter.copy;
    const auto reader = std::ranges::find_if(graph.nodes(), [&](const Node& node) {
      return wants_padding(graph, node) && node.inputs[Conv::w] == weights;
    });
    if (reader == graph.nodes().end() || !read_by_convolutions(graph, weights)) continue;
    Shape shape = graph.value(weights).type.shape;
    shape[1] = whole_channels;
    const kernels::Layout padded = kernels::channels_last(shape);
    graph.value(parameter.value).layout = padded;
    graph.value(weights).layout = padded;
  }
}

}  // namespace lockstep::runtime
