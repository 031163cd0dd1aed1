#include "runtime/plan/passes.h"

#include <algorithm>
#include <numeric>

#include "kernels/base/alignment.h"
#include "runtime/plan/bucket.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Role;
using model::Value;
using model::ValueId;

struct Lifetime {
  ValueId value;
  std::size_t first = 0;  ///< the node that writes it
  std::size_t last = 0;   ///< the last node that reads or writes it
  std::size_t bytes = 0;
  std::size_t offset = 0;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

std::size_t slice_bytes(const Graph& graph, ValueId id) {
  return whole_lines(stored_bytes(graph.value(id)));
}

class Storage {
 public:
  explicit Storage(const Graph& graph) : graph_(graph), root_(graph.value_count()) {
    std::iota(root_.begin(), root_.end(), 0);
    last_read_.assign(graph.value_count(), 0);
    for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
      for (const ValueId id : graph.nodes()[at].inputs) last_read_[index(id)] = at;
    }
    for (std::size_t at = 0; at < graph.nodes().size(); ++at) share(graph.nodes()[at], at);
  }

  std::vector<ValueId> roots() const { return root_; }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  void share(const Node& node, std::size_t at) {
    if (node.outputs.empty()) return;
    const ValueId output = node.outputs[0];
    if (node.op->is_view()) {
      merge(output, node.inputs[0]);
    } else if (const auto victim = node.op->overwrites()) {
      if (*victim >= node.inputs.size()) return;
      const ValueId input = node.inputs[*victim];
      if (!may_overwrite(input, output, at)) return;
      if (graph_.value(output).role == Role::gradient) {
        become_part_of(input, output);
      } else {
        merge(output, input);
      }
    }
  }

  /// The memory of a gradient serves what it is made of: nothing else lies there before it is written. Only
  /// of equal size: an op that repeats its input along a dimension reads it again after the first write.
  bool may_overwrite(ValueId input, ValueId output, std::size_t at) const {
    const ValueId root = root_[index(input)];
    const Value& from = graph_.value(input);
    const Value& to = graph_.value(output);
    const bool has_room = to.role == Role::activation || to.role == Role::gradient;
    return graph_.value(root).role == Role::activation && has_room && last_read_[index(root)] <= at &&
           from.type == to.type && from.layout == to.layout &&
           stored_bytes(graph_.value(root)) == stored_bytes(to);
  }

  void become_part_of(ValueId input, ValueId gradient) {
    std::ranges::replace(root_, ValueId{root_[index(input)]}, gradient);
  }

  void merge(ValueId output, ValueId input) {
    const ValueId root = root_[index(input)];
    root_[index(output)] = root;
    last_read_[index(root)] = std::max(last_read_[index(root)], last_read_[index(output)]);
  }

  const Graph& graph_;
  std::vector<ValueId> root_;
  std::vector<std::size_t> last_read_;
};

std::vector<Lifetime> lifetimes(const Graph& graph, const std::vector<ValueId>& storage) {
  std::vector<Lifetime> result;
  std::vector<std::size_t> at_value(graph.value_count(), ActivationPlan::not_here);
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    const Node& node = graph.nodes()[at];
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids) {
        const ValueId root = storage[static_cast<std::size_t>(id)];
        if (graph.value(root).role != Role::activation) continue;
        std::size_t& slot = at_value[static_cast<std::size_t>(root)];
        if (slot == ActivationPlan::not_here) {
          slot = result.size();
          result.push_back({.value = root, .first = at, .last = at, .bytes = slice_bytes(graph, root)});
        }
        result[slot].last = at;
      }
    }
  }
  return result;
}

/// The lowest offset at which `life` overlaps no allocated value that lives at the same time.
std::size_t first_fit(const Lifetime& life, const std::vector<Lifetime>& allocated) {
  std::vector<const Lifetime*> neighbours;
  for (const Lifetime& other : allocated) {
    if (other.overlaps(life)) neighbours.push_back(&other);
  }
  std::ranges::sort(neighbours, {}, [](const Lifetime* other) { return other->offset; });
  std::size_t offset = 0;
  for (const Lifetime* other : neighbours) {
    if (offset + life.bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

ActivationPlan allocate_activations(const Graph& graph) {
  ActivationPlan plan{.offsets = std::vector<std::size_t>(graph.value_count(), ActivationPlan::not_here),
                      .bytes = 0,
                      .storage = Storage(graph).roots()};
  std::vector<Lifetime> waiting = lifetimes(graph, plan.storage);
  std::ranges::stable_sort(waiting, std::greater{}, &Lifetime::bytes);
  std::vector<Lifetime> allocated;
  for (Lifetime& life : waiting) {
    life.offset = first_fit(life, allocated);
    plan.bytes = std::max(plan.bytes, life.offset + life.bytes);
    allocated.push_back(life);
  }
  for (const Lifetime& life : allocated) plan.offsets[static_cast<std::size_t>(life.value)] = life.offset;
  return plan;
}

}  // namespace lockstep::runtime
