#include <algorithm>

#include "kernels/cast.h"
#include "kernels/pictures.h"
#include "kernels/reorder.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/passes.h"

namespace lockstep::runtime {
namespace {

using model::Node;

/// The only reader of what `node` makes, if it copies that into another type or layout.
std::vector<Node>::iterator only_copy(model::Graph& graph, const Node& node) {
  auto& nodes = graph.nodes();
  if (graph.uses(node.outputs[0]) != 1) return nodes.end();
  return std::ranges::find_if(nodes, [&](const Node& reader) {
    const bool copies =
        reader.op->as<kernels::Cast>() != nullptr || reader.op->as<kernels::Reorder>() != nullptr;
    return copies && reader.inputs[0] == node.outputs[0];
  });
}

}  // namespace

void absorb_copies(model::Graph& graph) {
  auto& nodes = graph.nodes();
  const auto maker =
      std::ranges::find_if(nodes, [](const Node& node) { return node.op->as<kernels::PicturesToFloats>(); });
  if (maker == nodes.end()) return;
  const auto at = maker - nodes.begin();
  for (auto copy = only_copy(graph, *maker); copy != nodes.end(); copy = only_copy(graph, nodes[at])) {
    kernels::PicturesToFloats op = *nodes[at].op->as<kernels::PicturesToFloats>();
    op.to = graph.value(copy->outputs[0]).type.dtype;
    nodes[at].op = model::make_op(std::move(op));
    nodes[at].outputs = copy->outputs;
    nodes.erase(copy);
  }
}

}  // namespace lockstep::runtime
