#include "runtime/plan/allocate.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/base/alignment.h"
#include "runtime/plan/bucket.h"
#include "runtime/plan/launches.h"
#include "runtime/plan/lifetime_allocator.h"
#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

using model::Graph;
using model::Node;
using model::Phase;
using model::Role;
using model::Value;
using model::ValueId;

/// An activation with what shares its memory; without a value the scratch memory of a node.
struct MemoryRequest {
  ValueId value;
  Lifetime life;
};

std::size_t slice_bytes(const Graph& graph, ValueId id) {
  return whole_lines(allocated_bytes(graph.value(id)));
}

/// Values that share memory, each set by the value that stands for it.
class AliasSets {
 public:
  AliasSets(const Graph& graph, GradientArena gradients)
      : graph_(graph), gradients_(gradients), root_(graph.value_count()), offset_(graph.value_count(), 0) {
    std::iota(root_.begin(), root_.end(), 0);
    last_read_.assign(graph.value_count(), 0);
    for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
      for (const ValueId id : graph.nodes()[at].inputs) last_read_[index(id)] = at;
    }
    for (std::size_t at = 0; at < graph.nodes().size(); ++at) share(graph.nodes()[at], at);
  }

  const std::vector<ValueId>& roots() const { return root_; }
  /// Of each value in its root's memory, in bytes.
  const std::vector<std::size_t>& offsets() const { return offset_; }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  void share(const Node& node, std::size_t at) {
    if (node.outputs.empty()) return;
    const ValueId output = node.outputs[0];
    if (node.op->is_view()) {
      const ValueId input = node.inputs[0];
      merge(output, input);
      offset_[index(output)] = offset_[index(input)] + node.op->view_offset(graph_.value(input).type.dtype);
    } else if (const auto victim = node.op->overwrites()) {
      if (*victim >= node.inputs.size()) return;
      const ValueId input = node.inputs[*victim];
      if (!may_overwrite(input, output, at)) return;
      if (graph_.value(output).role == Role::gradient) {
        if (may_share_gradient(root_[index(input)])) become_part_of(input, output);
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
           allocated_bytes(graph_.value(root)) == allocated_bytes(to);
  }

  /// Forward writes nothing where gradients of the step before are still exchanged.
  bool may_share_gradient(ValueId root) const {
    const auto writer = graph_.producer(root);
    return gradients_ == GradientArena::own || (writer && graph_.nodes()[*writer].phase == Phase::backward);
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
  const GradientArena gradients_;
  std::vector<ValueId> root_;
  std::vector<std::size_t> offset_;
  std::vector<std::size_t> last_read_;
};

std::vector<MemoryRequest> memory_requests(const Graph& graph, const std::vector<ValueId>& storage) {
  std::vector<MemoryRequest> result;
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
          result.push_back(
              {.value = root, .life = {.first = at, .last = at, .bytes = slice_bytes(graph, root)}});
        }
        result[slot].life.last = at;
      }
    }
  }
  return result;
}

/// By value: the first node that reads or writes its memory; for ever behind all nodes if none does.
std::vector<std::size_t> first_uses(const Graph& graph, const std::vector<ValueId>& storage) {
  std::vector<std::size_t> first(graph.value_count(), Lifetime::for_ever);
  for (std::size_t at = graph.nodes().size(); at-- > 0;) {
    const Node& node = graph.nodes()[at];
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (const ValueId id : *ids)
        first[static_cast<std::size_t>(storage[static_cast<std::size_t>(id)])] = at;
    }
  }
  return first;
}

/// The gradient arena as long as gradients are not there: each slice until the first node that writes to it;
/// in a graph without gradients to the end. Not what no node writes: padding, which has to stay zero, and
/// gradients that are rows alone.
LifetimeAllocator idle_gradients(const Graph& graph, const ArenaPlan& arena,
                                 const std::vector<ValueId>& storage) {
  const std::vector<std::size_t> first = first_uses(graph, storage);
  const std::size_t element = size_of(arena.gradient_dtype);
  LifetimeAllocator idle(arena.gradient_bytes());
  const auto reserve = [&](std::size_t from, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    idle.reserve({.first = from,
                  .last = Lifetime::for_ever,
                  .bytes = static_cast<std::size_t>(end - begin) * element,
                  .offset = static_cast<std::size_t>(begin) * element});
  };
  const bool learns = std::ranges::any_of(graph.parameters(), [](const model::Parameter& parameter) {
    return parameter.gradient != model::no_value || parameter.rows != model::no_value;
  });
  std::int64_t end = 0;
  for (const ArenaSlice& slice : arena.slices) {
    reserve(0, end, slice.first);
    end = slice.first + slice.count;
    const model::Parameter& parameter = graph.parameters()[slice.parameter];
    const bool padded = slice.count != graph.value(parameter.value).type.shape.elements();
    if (padded || (learns && !graph.producer(parameter.gradient))) {
      reserve(0, slice.first, end);
    } else if (learns) {
      reserve(first[static_cast<std::size_t>(parameter.gradient)], slice.first, end);
    }
  }
  reserve(0, end, arena.elements);
  return idle;
}

/// Gives each the lowest offset in the first of both memories that has one.
ActivationPlan allocate(const Graph& graph, const AliasSets& aliases, std::span<const Launch> nodes,
                        LifetimeAllocator idle) {
  ActivationPlan plan{.offsets = std::vector<std::size_t>(graph.value_count(), ActivationPlan::not_here),
                      .is_lent = std::vector<bool>(graph.value_count(), false),
                      .workspaces = std::vector<std::size_t>(graph.nodes().size(), ActivationPlan::not_here),
                      .storage = aliases.roots(),
                      .view_offsets = aliases.offsets()};
  std::vector<MemoryRequest> waiting = memory_requests(graph, plan.storage);
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    const std::size_t bytes = nodes[at].kernel == nullptr ? 0 : nodes[at].kernel->workspace_bytes();
    if (bytes > 0) waiting.push_back({.value = model::no_value, .life = {at, at, bytes}});
  }
  std::ranges::stable_sort(waiting, std::greater{},
                           [](const MemoryRequest& request) { return request.life.bytes; });
  LifetimeAllocator activations;
  for (auto& [value, life] : waiting) {
    if (value == model::no_value) {
      if (idle.try_place(life, workspace_alignment)) plan.workspaces[life.first] = life.offset;
      continue;
    }
    const bool is_lent = idle.try_place(life);
    if (!is_lent) activations.try_place(life);
    plan.is_lent[static_cast<std::size_t>(value)] = is_lent;
    plan.offsets[static_cast<std::size_t>(value)] = life.offset;
  }
  plan.bytes = activations.end();
  for (std::size_t id = 0; id < graph.value_count(); ++id) {
    if (graph.value(static_cast<ValueId>(id)).role != Role::cache) continue;
    plan.offsets[id] = plan.cache_bytes;
    plan.cache_bytes += slice_bytes(graph, static_cast<ValueId>(id));
  }
  return plan;
}

}  // namespace

ActivationPlan allocate_activations(const Graph& graph, GradientArena gradients) {
  return allocate(graph, AliasSets(graph, gradients), {}, LifetimeAllocator(0));
}

ActivationPlan allocate_activations(const Graph& graph, const ArenaPlan& arena,
                                    std::span<const Launch> nodes) {
  const AliasSets aliases(graph, GradientArena::own);
  return allocate(graph, aliases, nodes, idle_gradients(graph, arena, aliases.roots()));
}

}  // namespace lockstep::runtime
