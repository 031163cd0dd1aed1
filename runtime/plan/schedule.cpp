#include "runtime/plan/schedule.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

/// The compute thread sums the last bucket, and applies all updates at the end.
std::vector<Step> schedule_on_threads(const model::Graph& graph, const ArenaPlan& arena,
                                      const ScheduleOptions& options) {
  const std::vector<std::size_t> ready = bucket_ready_nodes(graph, arena);
  std::vector<Step> steps;
  std::size_t next_bucket = 0;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    steps.push_back({Step::Kind::launch, node});
    if (!options.exchange || !options.overlap) continue;
    while (next_bucket + 1 < ready.size() && ready[next_bucket] <= node && node + 1 < graph.nodes().size()) {
      steps.push_back({Step::Kind::exchange, next_bucket++});
    }
  }
  for (; options.exchange && next_bucket < ready.size(); ++next_bucket) {
    steps.push_back({Step::Kind::exchange_now, next_bucket});
  }
  for (std::size_t bucket = 0; bucket < ready.size(); ++bucket) {
    steps.push_back({Step::Kind::update, bucket});
  }
  return steps;
}

std::vector<Step> schedule_on_streams(const model::Graph& graph, const ArenaPlan& arena, bool overlap) {
  const std::vector<std::size_t> ready = bucket_ready_nodes(graph, arena);
  const std::vector<std::size_t> last_reader = bucket_last_readers(graph, arena);
  const std::size_t buckets = ready.size();
  const std::size_t nodes = graph.nodes().size();
  std::vector<Step> steps;
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    steps.push_back({Step::Kind::launch, node});
    if (!overlap && node + 1 < nodes) continue;
    while (exchanged < buckets && ready[exchanged] <= node) {
      steps.push_back({Step::Kind::exchange, exchanged++});
    }
    while (updated < exchanged && last_reader[updated] <= node) {
      steps.push_back({Step::Kind::update, updated++});
    }
  }
  return steps;
}

}  // namespace

std::vector<Step> schedule_forward(const model::Graph& graph) {
  std::vector<Step> steps;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    steps.push_back({Step::Kind::launch, node});
  }
  return steps;
}

std::vector<Step> schedule_training(const model::Graph& graph, const ArenaPlan& arena,
                                    const ScheduleOptions& options) {
  const bool on_streams = options.exchange && options.on_streams;
  return on_streams ? schedule_on_streams(graph, arena, options.overlap)
                    : schedule_on_threads(graph, arena, options);
}

}  // namespace lockstep::runtime
