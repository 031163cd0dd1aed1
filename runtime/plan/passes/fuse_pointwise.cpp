#include "runtime/plan/passes/passes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/pointwise.h"
#include "model/spec_op.h"
#include "runtime/plan/passes/dropped_nodes.h"

namespace lockstep::runtime {
namespace {

using kernels::Pointwise;
using model::Graph;
using model::Node;
using model::Role;
using model::ValueId;

std::optional<std::size_t> position(const std::vector<ValueId>& ids, ValueId id) {
  const auto at = std::ranges::find(ids, id);
  if (at == ids.end()) return std::nullopt;
  return static_cast<std::size_t>(at - ids.begin());
}

bool any_of(const std::vector<ValueId>& ids, const std::vector<ValueId>& others) {
  return std::ranges::any_of(ids, [&](ValueId id) { return position(others, id).has_value(); });
}

/// Whether `first` may move down to `second`: no node between them reads its outputs or writes its inputs.
bool may_move(const Graph& graph, std::size_t first, std::size_t second) {
  const auto& nodes = graph.nodes();
  return std::none_of(nodes.begin() + static_cast<std::ptrdiff_t>(first) + 1,
                      nodes.begin() + static_cast<std::ptrdiff_t>(second), [&](const Node& between) {
                        return any_of(between.inputs, nodes[first].outputs) ||
                               any_of(between.outputs, nodes[first].inputs);
                      });
}

/// All outputs of the joined node have one shape; a smaller one would be computed again for every repetition.
bool same_shape(const Graph& graph, const Node& first, const Node& second) {
  return graph.value(first.outputs[0]).type == graph.value(second.outputs[0]).type;
}

/// Whether anything but `reader` needs the value.
bool is_kept(const Graph& graph, ValueId id, const Node& reader) {
  const auto reads = static_cast<std::size_t>(std::ranges::count(reader.inputs, id));
  return graph.uses(id) > reads || graph.value(id).role != Role::activation || graph.output == id;
}

std::string joined_layers(const Node& first, const Node& second) {
  return first.layer == second.layer ? first.layer : first.layer + "+" + second.layer;
}

/// Makes `second` both, and drops `first`; false if one kernel cannot do it.
bool join_nodes(const Graph& graph, Node& first, Node& second) {
  std::array<bool, Pointwise::most_outputs> kept{};
  std::vector<ValueId> inputs = first.inputs;
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < first.outputs.size(); ++i) {
    kept[i] = is_kept(graph, first.outputs[i], second);
    if (kept[i]) outputs.push_back(first.outputs[i]);
  }
  outputs.insert(outputs.end(), second.outputs.begin(), second.outputs.end());
  std::vector<Pointwise::Operand> read;
  for (const ValueId id : second.inputs) {
    if (const auto result = position(first.outputs, id)) {
      read.push_back(Pointwise::result_of(as<Pointwise>(first)->outputs[*result]));
    } else if (const auto input = position(inputs, id)) {
      read.push_back(static_cast<Pointwise::Operand>(*input));
    } else {
      read.push_back(kernels::new_input);
      inputs.push_back(id);
    }
  }
  const auto joined = kernels::join(*as<Pointwise>(first), *as<Pointwise>(second), read, kept);
  if (!joined) return false;
  second.op = model::make_op(*joined);
  second.inputs = std::move(inputs);
  second.outputs = std::move(outputs);
  second.layer = joined_layers(first, second);
  drop(first);
  return true;
}

/// Joins one of the nodes that `at` reads into it: the last that can be.
bool join_a_producer(Graph& graph, std::size_t at) {
  Node& second = graph.nodes()[at];
  for (std::size_t before = at; before-- > 0;) {
    Node& first = graph.nodes()[before];
    const bool chained = as<Pointwise>(first) != nullptr && first.phase == second.phase &&
                         any_of(second.inputs, first.outputs);
    if (chained && same_shape(graph, first, second) && may_move(graph, before, at) &&
        join_nodes(graph, first, second)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void fuse_pointwise(Graph& graph) {
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    if (as<Pointwise>(graph.nodes()[at]) == nullptr) continue;
    while (join_a_producer(graph, at)) continue;
  }
  erase_dropped(graph);
}

}  // namespace lockstep::runtime
