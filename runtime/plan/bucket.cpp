#include "runtime/plan/bucket.h"

#include <algorithm>
#include <numeric>

namespace lockstep::runtime {
namespace {

std::vector<std::size_t> gradient_ready_nodes(const model::Graph& graph) {
  std::vector<std::size_t> ready;
  for (const model::Parameter& parameter : graph.parameters()) {
    ready.push_back(graph.producer(parameter.gradient).value_or(graph.nodes().size()));
  }
  return ready;
}

/// The greatest of `nodes` (by parameter) among each bucket's parameters.
std::vector<std::size_t> last_of_each_bucket(const ArenaPlan& arena, const std::vector<std::size_t>& nodes) {
  std::vector<std::size_t> last;
  for (const Bucket& bucket : arena.buckets) {
    last.push_back(0);
    for (const ArenaSlice& slice : arena.slices) {
      const bool inside = slice.first >= bucket.first && slice.first < bucket.first + bucket.count;
      if (inside) last.back() = std::max(last.back(), nodes[slice.parameter]);
    }
  }
  return last;
}

void assign_buffers(const model::Graph& graph, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.buffers().size(); ++index) {
    const model::Value& value = graph.value(graph.buffers()[index].value);
    plan.buffers.push_back({.buffer = index, .name = value.name, .first = plan.buffer_elements});
    plan.buffer_elements += round_up(stored_elements(value), elements_of_a_line(DType::f32));
  }
}

/// The value whose memory `id` is a view of.
model::ValueId viewed(const model::Graph& graph, model::ValueId id) {
  for (auto writer = graph.producer(id); writer && graph.nodes()[*writer].op->is_view();
       writer = graph.producer(id)) {
    id = graph.nodes()[*writer].inputs[0];
  }
  return id;
}

}  // namespace

ArenaPlan assign_buckets(const model::Graph& graph, const BucketLimits& limits) {
  const std::vector<std::size_t> ready = gradient_ready_nodes(graph);
  std::vector<std::size_t> order(ready.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t parameter) { return ready[parameter]; });

  ArenaPlan plan;
  const std::int64_t line = elements_of_a_line(plan.dtype);
  std::int64_t end = 0;
  bool bucket_open = false;
  for (const std::size_t index : order) {
    const model::Value& value = graph.value(graph.parameters()[index].value);
    if (!bucket_open) {
      end = round_up(end, limits.ranks * line);
      plan.buckets.push_back({.first = end, .first_parameter = value.name});
    }
    plan.slices.push_back(
        {.parameter = index, .name = value.name, .first = end, .count = stored_elements(value)});
    end += round_up(plan.slices.back().count, line);
    Bucket& bucket = plan.buckets.back();
    bucket.count = round_up(end - bucket.first, limits.ranks * line);
    const auto bytes = static_cast<std::size_t>(end - bucket.first) * size_of(plan.dtype);
    bucket_open = bytes < (plan.buckets.size() == 1 ? limits.first_bytes : limits.bytes);
  }
  plan.elements = round_up(end, limits.ranks * line);
  if (!plan.buckets.empty()) plan.buckets.back().with_control = true;
  assign_buffers(graph, plan);
  return plan;
}

std::vector<std::size_t> bucket_ready_nodes(const model::Graph& graph, const ArenaPlan& arena) {
  return last_of_each_bucket(arena, gradient_ready_nodes(graph));
}

std::vector<std::size_t> bucket_last_readers(const model::Graph& graph, const ArenaPlan& arena) {
  std::vector<std::size_t> last_reader(graph.value_count(), 0);
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    for (const model::ValueId id : graph.nodes()[at].inputs) {
      last_reader[static_cast<std::size_t>(viewed(graph, id))] = at;
    }
  }
  std::vector<std::size_t> of_parameter;
  for (const model::Parameter& parameter : graph.parameters()) {
    of_parameter.push_back(last_reader[static_cast<std::size_t>(parameter.value)]);
  }
  return last_of_each_bucket(arena, of_parameter);
}

}  // namespace lockstep::runtime
