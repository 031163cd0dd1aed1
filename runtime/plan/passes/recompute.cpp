#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "kernels/base/error.h"
#include "runtime/plan/passes/passes.h"
#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::no_segment;
using model::Node;
using model::Role;
using model::ValueId;

/// Whether it does something that must happen once a step.
bool acts_once(const Graph& graph, const Node& node) {
  const auto is_shared = [&](ValueId id) {
    const Role role = graph.value(id).role;
    return role == Role::buffer || role == Role::control || role == Role::statistics;
  };
  return std::ranges::any_of(node.inputs, is_shared) || std::ranges::any_of(node.outputs, is_shared);
}

/// A result that is much smaller than what it is made of, such as statistics or a pooled image, saves
/// nothing.
bool is_small(const Graph& graph, ValueId output, const Node& writer) {
  constexpr std::size_t small_share = 16;
  return std::ranges::any_of(writer.inputs, [&](ValueId id) {
    const model::Value& input = graph.value(id);
    return input.role == Role::activation &&
           small_share * allocated_bytes(graph.value(output)) <= allocated_bytes(input);
  });
}

/// Which values are not kept, and what gives them again.
class Segments {
 public:
  explicit Segments(const Graph& graph) : graph_(graph), writer_(graph.value_count()) {
    for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
      const Node& node = graph.nodes()[at];
      if (node.segment == no_segment) continue;
      any_ = true;
      if (acts_once(graph, node)) continue;
      for (const ValueId id : node.outputs) {
        if (!is_small(graph, id, node)) writer_[index(id)] = at;
      }
    }
    keep_what_others_read();
    mark_needed();
  }

  bool any() const { return any_; }

  /// The node that gives the value again; none for one that is kept.
  std::optional<std::size_t> writer(ValueId id) const { return writer_[index(id)]; }

  /// Whether backward needs an output of that node again, itself or by another node of the segment.
  bool needs(const Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ValueId id) { return needed_[index(id)] && writer(id); });
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  void keep(ValueId id) { writer_[index(id)].reset(); }

  /// From the last node to the first: a view that is kept keeps the memory that it shows.
  void keep_what_others_read() {
    if (graph_.output != model::no_value) keep(graph_.output);
    const auto& nodes = graph_.nodes();
    for (std::size_t at = nodes.size(); at-- > 0;) {
      const Node& node = nodes[at];
      if (node.phase != model::Phase::forward) continue;
      const bool is_kept_view = node.op->is_view() && !writer(node.outputs[0]);
      for (const ValueId id : node.inputs) {
        const auto from = writer(id);
        if (from && (is_kept_view || nodes[*from].segment != node.segment)) keep(id);
      }
    }
  }

  void mark_needed() {
    needed_.resize(graph_.value_count());
    const auto& nodes = graph_.nodes();
    for (std::size_t at = nodes.size(); at-- > 0;) {
      const Node& node = nodes[at];
      if (node.phase == model::Phase::forward && !needs(node)) continue;
      for (const ValueId id : node.inputs) needed_[index(id)] = true;
    }
  }

  const Graph& graph_;
  std::vector<std::optional<std::size_t>> writer_;  ///< by value
  std::vector<bool> needed_;                        ///< by value
  bool any_ = false;
};

class RecomputePass {
 public:
  RecomputePass(Graph& graph, const Segments& segments)
      : graph_(graph), segments_(segments), nodes_(graph.nodes()) {}

  void run() {
    for (Node& node : std::exchange(graph_.nodes(), {})) {
      if (node.phase == model::Phase::backward) read_again(node);
      graph_.nodes().push_back(std::move(node));
    }
  }

 private:
  void read_again(Node& reader) {
    for (ValueId& id : reader.inputs) {
      const auto writer = segments_.writer(id);
      if (!writer) continue;
      if (!again_.contains(id)) repeat(nodes_[*writer].segment);
      id = again_.at(id);
    }
  }

  void repeat(int segment) {
    for (const Node& node : nodes_) {
      if (node.segment == segment && segments_.needs(node)) repeat(node);
    }
  }

  void repeat(const Node& original) {
    Node node = original;
    node.id = graph_.new_node_id();
    node.layer += " again";
    node.phase = model::Phase::backward;
    node.segment = no_segment;
    for (ValueId& id : node.inputs) {
      if (segments_.writer(id)) id = again_.at(id);
    }
    for (ValueId& id : node.outputs) id = copy_of(id);
    graph_.nodes().push_back(std::move(node));
  }

  ValueId copy_of(ValueId id) {
    const model::Value original = graph_.value(id);
    const ValueId copy = graph_.add_value(original.name + " again", original.type, Role::activation);
    graph_.value(copy).layout = original.layout;
    again_.emplace(id, copy);
    return copy;
  }

  Graph& graph_;
  const Segments& segments_;
  const std::vector<Node> nodes_;     ///< as they were
  std::map<ValueId, ValueId> again_;  ///< values that were computed again
};

}  // namespace

void recompute(Graph& graph) {
  const Segments segments(graph);
  if (!segments.any()) {
    throw UsageError(
        "--recompute: the model marks no blocks that could be computed again (model::segment); leave it out");
  }
  RecomputePass(graph, segments).run();
}

}  // namespace lockstep::runtime
