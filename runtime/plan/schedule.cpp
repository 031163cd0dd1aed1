#include "runtime/plan/schedule.h"

#include <algorithm>

namespace lockstep::runtime {

std::vector<Step> schedule_forward(const model::Graph& graph) {
  std::vector<Step> steps;
  for (std::size_t node = 0; node < graph.nodes().size(); ++node) {
    steps.push_back({Step::Kind::launch, node});
  }
  return steps;
}

std::vector<Step> schedule_training(const model::Graph& graph, const ArenaPlan& arena,
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

}  // namespace lockstep::runtime
