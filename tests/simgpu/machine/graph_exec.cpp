#include "tests/simgpu/machine/graph_exec.h"

#include <utility>

namespace simgpu {

GraphExec::GraphExec(std::shared_ptr<const Graph> graph, Scheduler& scheduler, Origin origin)
    : graph_(std::move(graph)), scheduler_(scheduler), created_(std::move(origin)) {
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
        lock, {node.operation, node.info, node.device, lanes_[node.lane], std::move(waits)}));
  }
  if (last_) nodes.push_back(last_);
  Operation end{Operation::Kind::fill, "end of a graph", {}, {}};
  last_ = streams.submit(lock, stream, std::move(end), origin, nodes);
}

}  // namespace simgpu
