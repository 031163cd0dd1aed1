#include "runtime/plan/schedule.h"

#include <algorithm>

namespace lockstep::runtime {
namespace {

void append_updates(std::vector<Step>& steps, std::size_t first, std::size_t buckets, bool clips) {
  if (clips) steps.push_back({Step::Kind::clip, 0});
  for (std::size_t bucket = first; bucket < buckets; ++bucket) {
    steps.push_back({Step::Kind::update, bucket});
  }
}

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
  append_updates(steps, 0, ready.size(), options.clips);
  return steps;
}

std::vector<Step> schedule_on_streams(const model::Graph& graph, const ArenaPlan& arena,
                                      const ScheduleOptions& options) {
  const std::vector<std::size_t> ready = bucket_ready_nodes(graph, arena);
  const std::vector<std::size_t> last_reader = bucket_last_readers(graph, arena);
  const std::size_t buckets = ready.size();
  const std::size_t nodes = graph.nodes().size();
  std::vector<Step> steps;
  std::size_t exchanged = 0;
  std::size_t updated = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    steps.push_back({Step::Kind::launch, node});
    if (!options.overlap && node + 1 < nodes) continue;
    while (exchanged < buckets && ready[exchanged] <= node) {
      steps.push_back({Step::Kind::exchange, exchanged++});
    }
    while (!options.clips && updated < exchanged && last_reader[updated] <= node) {
      steps.push_back({Step::Kind::update, updated++});
    }
  }
  append_updates(steps, updated, buckets, options.clips);
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
  return on_streams ? schedule_on_streams(graph, arena, options) : schedule_on_threads(graph, arena, options);
}

}  // namespace lockstep::runtime
