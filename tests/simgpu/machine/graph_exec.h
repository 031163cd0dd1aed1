#pragma once

#include <memory>
#include <vector>

#include "tests/simgpu/machine/capture.h"

namespace simgpu {

/// A graph that can be launched. Its launches follow each other, as CUDA has it, also in different streams.
class GraphExec {
 public:
  /// Mistake "lost priorities" when nodes differ in theirs and `flags` (cudaGraphInstantiate's) drop them.
  GraphExec(std::shared_ptr<const Graph> graph, Scheduler& scheduler, Origin origin,
            unsigned long long flags);

  /// Hands all nodes to the scheduler, which checks each anew.
  void launch(Lock& lock, Streams& streams, Stream& stream, const Origin& origin);

  const Graph& graph() const { return *graph_; }
  const Origin& created() const { return created_; }

 private:
  std::shared_ptr<const Graph> graph_;
  Scheduler& scheduler_;
  std::vector<Actor> lanes_;
  NodePtr last_;
  Origin created_;
};

}  // namespace simgpu
