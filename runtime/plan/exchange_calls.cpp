#include "runtime/plan/exchange_calls.h"

#include <algorithm>
#include <utility>

#include "kernels/reorder.h"
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

/// Where a device reorders tensors may not be the same on all ranks, and the order of exchanges is.
bool counts(const model::Node& node) {
  return node.phase == model::Phase::backward && !node.op->is_view() &&
         node.op->as<kernels::Reorder>() == nullptr;
}

/// By node.
std::vector<double> backward_done(const model::Graph& graph) {
  std::vector<double> done;
  double sum = 0;
  for (const model::Node& node : graph.nodes()) {
    if (counts(node)) sum += work_of(graph, node);
    done.push_back(sum);
  }
  for (double& share : done) share = sum > 0 ? share / sum : 1;
  return done;
}

/// Of a list of rows those of one rank.
double bytes_of(const ArenaPlan& arena, const ExchangeCall& call) {
  if (call.is_rows) return static_cast<double>(arena.rows[call.index].list_bytes());
  return static_cast<double>(arena.buckets[call.index].count) *
         static_cast<double>(size_of(arena.gradient_dtype));
}

double mean_bytes(const ArenaPlan& arena, const std::vector<PlannedCall>& calls) {
  double bytes = 0;
  for (const PlannedCall& call : calls) bytes += bytes_of(arena, call.call);
  return bytes / static_cast<double>(calls.size());
}

}  // namespace

std::vector<PlannedCall> order_exchanges(const model::Graph& graph, const ArenaPlan& arena, bool holds) {
  std::vector<std::pair<std::size_t, ExchangeCall>> ready;
  const std::vector<std::size_t> buckets = bucket_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < exchanged_buckets(arena); ++index)
    ready.push_back({buckets[index], {.is_rows = false, .index = index}});
  const std::vector<std::size_t> rows = rows_ready_nodes(graph, arena);
  for (std::size_t index = 0; index < rows.size(); ++index)
    ready.push_back({rows[index], {.is_rows = true, .index = index}});
  std::ranges::stable_sort(ready, {}, [](const auto& entry) { return entry.first; });

  std::vector<PlannedCall> calls;
  for (const auto& entry : ready) calls.push_back({.call = entry.second});
  if (!holds) return calls;
  const std::vector<double> done = backward_done(graph);
  const double mean = mean_bytes(arena, calls);
  for (std::size_t at = 0; at < calls.size(); ++at) {
    calls[at].held = {.backward_done = ready[at].first < done.size() ? done[ready[at].first] : 1,
                      .relative_bytes = bytes_of(arena, calls[at].call) / mean};
  }
  return calls;
}

}  // namespace lockstep::runtime
