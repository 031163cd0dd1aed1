#include "tests/simgpu/machine/graph_exec.h"

#include <algorithm>
#include <string>
#include <utility>

namespace simgpu {

namespace {

/// CUDA runs all nodes at the priority of the stream that the graph is launched into unless it is told to use
/// their own.
void require_node_priorities(const Graph& graph, const Origin& origin) {
  if (graph.nodes.empty()) return;
  const auto [first, last] = std::ranges::minmax_element(graph.nodes, {}, &GraphNode::priority);
  if (first->priority == last->priority) return;
  report_mistake("lost priorities", first->info->describe() + " has priority " +
                                        std::to_string(first->priority) + " and " + last->info->describe() +
                                        " " + std::to_string(last->priority) +
                                        "; the graph instantiated at " + origin.text() +
                                        " forgets that without cudaGraphInstantiateFlagUseNodePriority");
}

}  // namespace

GraphExec::GraphExec(std::shared_ptr<const Graph> graph, Scheduler& scheduler, Origin origin,
                     unsigned long long flags)
    : graph_(std::move(graph)), scheduler_(scheduler), created_(std::move(origin)) {
  if ((flags & cudaGraphInstantiateFlagUseNodePriority) == 0) require_node_priorities(*graph_, created_);
  for (std::size_t lane = 0; lane < graph_->lanes; ++lane) lanes_.push_back(scheduler_.new_actor());
}

void GraphExec::launch(Lock& lock, Streams& streams, Stream& stream, const Origin& origin) {
  auto start = streams.waits_of(stream);
  if (last_) start.push_back(last_);
  std::vector<NodePtr> nodes;
  for (const GraphNode& node : graph_->nodes) {
    std::vector<NodePtr> waits = node.waits_for.empty() ? start : std::vector<NodePtr>{};
    for (const auto before : node.waits_for) waits.push_back(nodes[before]);
    nodes.push_back(scheduler_.schedule(
        lock, {node.operation, node.info, node.device, node.priority, lanes_[node.lane], std::move(waits)}));
  }
  if (last_) nodes.push_back(last_);
  Operation end{Operation::Kind::fill, "end of a graph", {}, {}};
  last_ = streams.submit(lock, stream, std::move(end), origin, nodes);
}

}  // namespace simgpu
