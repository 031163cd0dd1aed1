#include "runtime/plan/schedule_builder.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::runtime {

void ScheduleBuilder::launch(std::size_t node, StreamName stream) {
  add(Step::Kind::launch, node, stream);
  for (const model::ValueId id : graph_.nodes()[node].outputs) {
    if (graph_.value(id).role == model::Role::statistics) sum_statistics(id);
  }
}

void ScheduleBuilder::sum_statistics(model::ValueId id) {
  const auto& all = graph_.statistics();
  const auto index = static_cast<std::size_t>(std::ranges::find(all, id) - all.begin());
  if (!stream_ordered_) {
    join();
    return add(Step::Kind::sum_statistics, index);
  }
  order(StreamName::compute, StreamName::exchange, fmt::format("statistics {} ready", index));
  add(Step::Kind::sum_statistics, index, StreamName::exchange);
  await_exchange(StreamName::exchange, fmt::format("statistics {} summed", index));
}

std::string PlannedExchange::ready_event() const {
  return fmt::format("{} {} ready", is_rows() ? "rows" : "gradients", index);
}

std::string PlannedExchange::done_event() const {
  return is_rows() ? fmt::format("rows {} here", index) : fmt::format("bucket {} summed", index);
}

std::vector<PlannedExchange> exchanges_of(const model::Graph& graph, const ArenaPlan& arena) {
  const std::vector<std::size_t> buckets = bucket_ready_nodes(graph, arena);
  const std::vector<std::size_t> rows = rows_ready_nodes(graph, arena);
  std::vector<PlannedExchange> exchanges;
  std::size_t ready = 0;
  for (const auto& [call, held] : arena.exchanges) {
    ready = std::max(ready, call.is_rows ? rows[call.index] : buckets[call.index]);
    exchanges.push_back(
        {call.is_rows ? Step::Kind::gather_rows : Step::Kind::all_reduce, call.index, ready, held});
  }
  return exchanges;
}

std::size_t nodes_before_updates(const model::Graph& graph) {
  const auto& nodes = graph.nodes();
  const auto first = std::ranges::find_if(nodes, [&](const auto& node) { return graph.is_update(node); });
  return static_cast<std::size_t>(first - nodes.begin());
}

}  // namespace lockstep::runtime
