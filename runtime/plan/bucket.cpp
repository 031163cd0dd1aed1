#include "runtime/plan/bucket.h"

#include <algorithm>
#include <numeric>

namespace lockstep::runtime {
namespace {

std::vector<std::size_t> gradient_ready_nodes(const model::Graph& graph) {
  std::vector<std::size_t> ready;
  for (const model::Parameter& parameter : graph.parameters()) {
    // A micro-batch before the last only adds to the sum.
    const auto sum = graph.producer(parameter.gradient_sum);
    ready.push_back(graph.producer(parameter.gradient).value_or(sum.value_or(graph.nodes().size())));
  }
  return ready;
}

/// All gradients have one type; in a graph without gradients what a training step has by default.
DType gradient_dtype(const model::Graph& graph) {
  for (const model::Parameter& parameter : graph.parameters()) {
    if (parameter.gradient != model::no_value) return graph.value(parameter.gradient).type.dtype;
  }
  return DType::f32;
}

DType copy_dtype(const model::Graph& graph) {
  for (const model::Parameter& parameter : graph.parameters()) {
    if (parameter.copy != model::no_value) return graph.value(parameter.copy).type.dtype;
  }
  return DType::f32;
}

/// The parameters of each bucket, in the order in which their gradients become ready; `line`: elements to
/// which each is padded.
std::vector<std::vector<std::size_t>> parameters_by_bucket(const model::Graph& graph,
                                                           const BucketLimits& limits, DType dtype,
                                                           std::int64_t line) {
  const std::vector<std::size_t> ready = gradient_ready_nodes(graph);
  std::vector<std::size_t> order(ready.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t parameter) { return graph.parameters()[parameter].frozen; });
  std::ranges::stable_sort(order, {}, [&](std::size_t parameter) { return ready[parameter]; });

  std::vector<std::vector<std::size_t>> buckets;
  std::size_t bytes = 0;
  for (const std::size_t parameter : order) {
    if (buckets.empty() || bytes >= (buckets.size() == 1 ? limits.first_bytes : limits.bytes)) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(parameter);
    const std::int64_t count = stored_elements(graph.value(graph.parameters()[parameter].value));
    bytes += static_cast<std::size_t>(round_up(count, line)) * size_of(dtype);
  }
  return buckets;
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

void assign_frozen(const model::Graph& graph, std::int64_t line, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.parameters().size(); ++index) {
    if (!graph.parameters()[index].frozen) continue;
    const model::Value& value = graph.value(graph.parameters()[index].value);
    plan.frozen.push_back({.parameter = index,
                           .name = value.name,
                           .first = plan.elements + plan.frozen_elements,
                           .count = stored_elements(value)});
    plan.frozen_elements += round_up(stored_elements(value), line);
  }
}

void assign_buffers(const model::Graph& graph, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.buffers().size(); ++index) {
    const model::Value& value = graph.value(graph.buffers()[index].value);
    plan.buffers.push_back({.buffer = index, .name = value.name, .first = plan.buffer_elements});
    const auto words = static_cast<std::int64_t>(stored_bytes(value) / sizeof(float));
    plan.buffer_elements += round_up(words, elements_of_a_line(DType::f32));
  }
}

void assign_statistics(const model::Graph& graph, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.statistics().size(); ++index) {
    const model::Value& value = graph.value(graph.statistics()[index]);
    const std::int64_t count = value.type.shape.elements();
    plan.statistics.push_back(
        {.statistics = index, .name = value.name, .first = plan.statistics_elements, .count = count});
    plan.statistics_elements += round_up(count, elements_of_a_line(DType::f64));
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
  const auto is_decayed = [&](std::size_t parameter) {
    return !limits.decays_matrices_only || graph.parameters()[parameter].file_shape.rank() >= 2;
  };
  ArenaPlan plan;
  plan.gradient_dtype = gradient_dtype(graph);
  plan.copy_dtype = copy_dtype(graph);
  const std::int64_t line = std::max({elements_of_a_line(plan.dtype), elements_of_a_line(plan.gradient_dtype),
                                      elements_of_a_line(plan.copy_dtype)});
  const std::int64_t shards = limits.ranks * line;
  for (std::vector<std::size_t>& parameters :
       parameters_by_bucket(graph, limits, plan.gradient_dtype, line)) {
    Bucket bucket{.first = plan.elements,
                  .first_parameter = graph.value(graph.parameters()[parameters.front()].value).name};
    std::ranges::stable_partition(parameters, is_decayed);
    std::int64_t end = bucket.first;
    for (const std::size_t index : parameters) {
      const model::Value& value = graph.value(graph.parameters()[index].value);
      const std::int64_t count = stored_elements(value);
      bucket.has_copies = bucket.has_copies || graph.parameters()[index].copy != model::no_value;
      plan.slices.push_back({.parameter = index, .name = value.name, .first = end, .count = count});
      end += round_up(count, line);
      if (is_decayed(index)) bucket.decayed = end - bucket.first;
    }
    bucket.count = round_up(end - bucket.first, shards);
    if (bucket.decayed == end - bucket.first) bucket.decayed = bucket.count;
    plan.elements = bucket.first + bucket.count;
    plan.buckets.push_back(std::move(bucket));
  }
  if (!plan.buckets.empty()) plan.buckets.back().with_control = true;
  assign_frozen(graph, line, plan);
  assign_buffers(graph, plan);
  assign_statistics(graph, plan);
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
    std::size_t last = last_reader[static_cast<std::size_t>(parameter.value)];
    if (parameter.copy != model::no_value) {
      last = std::max(last, last_reader[static_cast<std::size_t>(parameter.copy)]);
    }
    of_parameter.push_back(last);
  }
  return last_of_each_bucket(arena, of_parameter);
}

}  // namespace lockstep::runtime
