#include "runtime/plan/exchange_calls.h"

#include <algorithm>
#include <utility>

#include "runtime/plan/bucket.h"

namespace lockstep::runtime {
namespace {

/// What a processor computes in the time in which it moves one number to or from memory.
constexpr double operations_a_number = 32;

double work_of(const model::Graph& graph, const model::Node& node) {
  double numbers = 0;
  for (const auto& values : {node.inputs, node.outputs}) {
    for (const model::ValueId id : values)
      numbers += static_cast<double>(graph.value(id).type.shape.elements());
  }
  return node.op->flops(graph.types(node.inputs), graph.types(node.outputs)) + operations_a_number * numbers;
}

/// By node.
std::vector<double> backward_done(const model::Graph& graph) {
  std::vector<double> done;
  double sum = 0;
  for (const model::Node& node : graph.nodes()) {
    if (node.phase == model::Phase::backward && !node.op->is_view()) sum += work_of(graph, node);
    done.push_back(sum);
  }
  for (double& share : done) share /= sum;
  return done;
}

}  // namespace

std::vector<PlannedCall> order_exchanges(const model::Graph& graph, const ArenaPlan& arena) {
  std::vector<std::pair<std::size_t, ExchangeCall>> ready;
  const std::vector<std::size_t> buckets = bucket_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < exchanged_buckets(arena); ++index)
    ready.push_back({buckets[index], {.is_rows = false, .index = index}});
  const std::vector<std::size_t> rows = rows_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < rows.size(); ++index)
    ready.push_back({rows[index], {.is_rows = true, .index = index}});
  std::ranges::stable_sort(ready, {}, [](const auto& entry) { return entry.first; });

  const std::vector<double> done = backward_done(graph);
  std::vector<PlannedCall> calls;
  for (const auto& [node, call] : ready)
    calls.push_back({.call = call, .backward_done = node < done.size() ? done[node] : 1});
  return calls;
}

}  // namespace lockstep::runtime
