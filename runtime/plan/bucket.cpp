#include "runtime/plan/bucket.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "runtime/plan/value_memory.h"

namespace lockstep::runtime {
namespace {

/// That a small model is cut into: the exchange begins early in backward, and little of it is left at its
/// end.
constexpr std::size_t wanted_buckets = 8;
constexpr std::size_t wanted_fine_buckets = 16;
constexpr std::size_t least_fine_bytes = std::size_t{128} << 10;

std::vector<std::size_t> gradient_ready_nodes(const model::Graph& graph) {
  std::vector<std::size_t> ready;
  for (const model::Parameter& parameter : graph.parameters()) {
    // A micro-batch before the last only adds to the sum.
    const auto sum = graph.producer(parameter.gradient_sum);
    ready.push_back(graph.producer(parameter.gradient).value_or(sum.value_or(graph.nodes().size())));
  }
  return ready;
}

/// Whether the rows that the ranks exchange are the whole gradient.
bool goes_as_rows_alone(const model::Graph& graph, std::size_t index) {
  const model::Parameter& parameter = graph.parameters()[index];
  return parameter.rows != model::no_value && !graph.producer(parameter.gradient);
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
  const auto as_rows = std::ranges::stable_partition(
      order, [&](std::size_t parameter) { return !goes_as_rows_alone(graph, parameter); });

  const std::span exchanged(order.begin(), as_rows.begin());
  const auto bytes_of = [&](std::size_t parameter) {
    const std::int64_t count = allocated_elements(graph.value(graph.parameters()[parameter].value));
    return static_cast<std::size_t>(rounded_up(count, line)) * size_of(dtype);
  };
  std::size_t all_bytes = 0;
  for (const std::size_t parameter : exchanged) all_bytes += bytes_of(parameter);
  const std::size_t full_bytes =
      limits.fine ? std::min(limits.bytes, std::max(least_fine_bytes, all_bytes / wanted_fine_buckets))
                  : std::min(limits.bytes, std::max(limits.first_bytes, all_bytes / wanted_buckets));
  const std::size_t first_bytes = limits.fine ? std::min(limits.first_bytes, full_bytes) : limits.first_bytes;

  std::vector<std::vector<std::size_t>> buckets;
  std::size_t bytes = 0;
  for (const std::size_t parameter : exchanged) {
    if (buckets.empty() || bytes >= (buckets.size() == 1 ? first_bytes : full_bytes)) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(parameter);
    bytes += bytes_of(parameter);
  }
  if (!as_rows.empty()) buckets.emplace_back(as_rows.begin(), as_rows.end());
  return buckets;
}

/// Of `nodes` (by parameter) that one among each bucket's parameters which none precedes in the order
/// `comes_first`.
template <class Order>
std::vector<std::size_t> first_of_each_bucket(const ArenaPlan& arena, const std::vector<std::size_t>& nodes,
                                              Order comes_first) {
  std::vector<std::size_t> first;
  for (const Bucket& bucket : arena.buckets) {
    std::optional<std::size_t> found;
    for (const ArenaSlice& slice : arena.slices) {
      const bool inside = slice.first >= bucket.first && slice.first < bucket.first + bucket.count;
      if (inside && (!found || comes_first(nodes[slice.parameter], *found))) found = nodes[slice.parameter];
    }
    first.push_back(found.value_or(0));
  }
  return first;
}

std::vector<std::size_t> last_of_each_bucket(const ArenaPlan& arena, const std::vector<std::size_t>& nodes) {
  return first_of_each_bucket(arena, nodes, std::greater<>());
}

void assign_frozen(const model::Graph& graph, std::int64_t line, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.parameters().size(); ++index) {
    if (!graph.parameters()[index].frozen) continue;
    const model::Value& value = graph.value(graph.parameters()[index].value);
    plan.frozen.push_back({.parameter = index,
                           .name = value.name,
                           .first = plan.elements + plan.frozen_elements,
                           .count = allocated_elements(value)});
    plan.frozen_elements += rounded_up(allocated_elements(value), line);
  }
}

void assign_buffers(const model::Graph& graph, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.buffers().size(); ++index) {
    const model::Value& value = graph.value(graph.buffers()[index].value);
    plan.buffers.push_back({.buffer = index, .name = value.name, .first = plan.buffer_elements});
    const auto words = static_cast<std::int64_t>(allocated_bytes(value) / sizeof(float));
    plan.buffer_elements += rounded_up(words, elements_of_a_line(DType::f32));
  }
}

void assign_statistics(const model::Graph& graph, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.statistics().size(); ++index) {
    const model::Value& value = graph.value(graph.statistics()[index]);
    const std::int64_t count = value.type.shape.elements();
    plan.statistics.push_back(
        {.statistics = index, .name = value.name, .first = plan.statistics_elements, .count = count});
    plan.statistics_elements += rounded_up(count, elements_of_a_line(DType::f64));
  }
}

void assign_rows(const model::Graph& graph, int ranks, ArenaPlan& plan) {
  for (std::size_t index = 0; index < graph.parameters().size(); ++index) {
    const model::Parameter& parameter = graph.parameters()[index];
    if (parameter.rows == model::no_value) continue;
    const model::Node& writer = graph.nodes()[*graph.producer(parameter.rows)];
    const model::Value& dy = graph.value(writer.inputs[0]);
    const auto slice = std::ranges::find(plan.slices, index, &ArenaSlice::parameter);
    const auto holds = [&](const Bucket& bucket) { return slice->first < bucket.first + bucket.count; };
    const auto bucket = std::ranges::find_if(plan.buckets, holds);
    plan.rows.push_back({.parameter = index,
                         .name = slice->name,
                         .list = writer.op->as<kernels::EmbeddingRows>()->shape(dy.type),
                         .ranks = ranks,
                         .bucket = static_cast<std::size_t>(bucket - plan.buckets.begin()),
                         .overwrites = bucket->only_rows});
  }
  std::ranges::stable_sort(plan.rows, {}, [&](const RowsSlice& slice) {
    return *graph.producer(graph.parameters()[slice.parameter].rows);
  });
  for (RowsSlice& slice : plan.rows) {
    slice.first = plan.rows_bytes;
    plan.rows_bytes += slice.bytes();
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

/// By parameter: of the nodes that read it, its copy or a view of either, the one that none precedes in the
/// order `comes_first`; `none` if nothing reads it.
template <class Order>
std::vector<std::size_t> readers(const model::Graph& graph, std::size_t none, Order comes_first) {
  std::vector<std::size_t> reader(graph.value_count(), none);
  for (std::size_t at = 0; at < graph.nodes().size(); ++at) {
    for (const model::ValueId id : graph.nodes()[at].inputs) {
      std::size_t& known = reader[static_cast<std::size_t>(viewed(graph, id))];
      if (comes_first(at, known)) known = at;
    }
  }
  std::vector<std::size_t> of_parameter;
  for (const model::Parameter& parameter : graph.parameters()) {
    of_parameter.push_back(reader[static_cast<std::size_t>(parameter.value)]);
    if (parameter.copy == model::no_value) continue;
    const std::size_t of_copy = reader[static_cast<std::size_t>(parameter.copy)];
    if (comes_first(of_copy, of_parameter.back())) of_parameter.back() = of_copy;
  }
  return of_parameter;
}

std::vector<std::size_t> last_readers(const model::Graph& graph) {
  return readers(graph, 0, std::greater<>());
}
std::vector<std::size_t> first_readers(const model::Graph& graph) {
  return readers(graph, graph.nodes().size(), std::less<>());
}

}  // namespace

ArenaPlan assign_buckets(const model::Graph& graph, const BucketLimits& limits) {
  const auto is_decayed = [&](std::size_t parameter) {
    return !limits.decays_matrices_only || graph.parameters()[parameter].file_shape.rank() >= 2;
  };
  ArenaPlan plan;
  plan.ranks = limits.ranks;
  plan.gradient_dtype = gradient_dtype(graph);
  plan.copy_dtype = copy_dtype(graph);
  plan.has_gradients = std::ranges::any_of(graph.parameters(), [](const model::Parameter& parameter) {
    return parameter.gradient != model::no_value || parameter.rows != model::no_value;
  });
  const std::int64_t line = std::max({elements_of_a_line(plan.dtype), elements_of_a_line(plan.gradient_dtype),
                                      elements_of_a_line(plan.copy_dtype)});
  const std::int64_t shards = limits.ranks * line;
  for (std::vector<std::size_t>& parameters :
       parameters_by_bucket(graph, limits, plan.gradient_dtype, line)) {
    std::ranges::stable_partition(parameters, is_decayed);
    Bucket bucket{.first = plan.elements,
                  .first_parameter = graph.value(graph.parameters()[parameters.front()].value).name,
                  .only_rows = goes_as_rows_alone(graph, parameters.front()),
                  .states_first = plan.elements};
    std::int64_t end = bucket.first;
    for (const std::size_t index : parameters) {
      const model::Value& value = graph.value(graph.parameters()[index].value);
      const std::int64_t count = allocated_elements(value);
      bucket.has_copies = bucket.has_copies || graph.parameters()[index].copy != model::no_value;
      plan.slices.push_back({.parameter = index, .name = value.name, .first = end, .count = count});
      end += rounded_up(count, line);
      if (is_decayed(index)) bucket.decayed = end - bucket.first;
    }
    bucket.count = rounded_up(end - bucket.first, shards);
    if (bucket.decayed == end - bucket.first) bucket.decayed = bucket.count;
    plan.elements = bucket.first + bucket.count;
    plan.buckets.push_back(std::move(bucket));
  }
  const std::size_t exchanged = exchanged_buckets(plan);
  if (exchanged > 0) plan.buckets[exchanged - 1].with_control = true;
  assign_frozen(graph, line, plan);
  assign_buffers(graph, plan);
  assign_statistics(graph, plan);
  assign_rows(graph, limits.ranks, plan);
  plan.exchanges = order_exchanges(graph, plan, limits.fine);
  return plan;
}

std::size_t exchanged_buckets(const ArenaPlan& arena) {
  const bool ends_with_rows = !arena.buckets.empty() && arena.buckets.back().only_rows;
  return arena.buckets.size() - (ends_with_rows ? 1 : 0);
}

std::vector<std::size_t> bucket_ready_nodes(const model::Graph& graph, const ArenaPlan& arena) {
  return last_of_each_bucket(arena, gradient_ready_nodes(graph));
}

std::vector<std::size_t> rows_ready_nodes(const model::Graph& graph, const ArenaPlan& arena) {
  std::vector<std::size_t> ready;
  for (const RowsSlice& slice : arena.rows) {
    ready.push_back(*graph.producer(graph.parameters()[slice.parameter].rows));
  }
  return ready;
}

std::vector<std::size_t> bucket_last_readers(const model::Graph& graph, const ArenaPlan& arena) {
  return last_of_each_bucket(arena, last_readers(graph));
}

std::vector<std::size_t> bucket_first_readers(const model::Graph& graph, const ArenaPlan& arena) {
  return first_of_each_bucket(arena, first_readers(graph), std::less<>());
}

}  // namespace lockstep::runtime
