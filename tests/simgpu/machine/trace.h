#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "tests/simgpu/machine/node.h"

namespace simgpu {

/// Writes what becomes of every operation, one JSON object a line in the order in which it happened:
/// {"event": "enqueue", "operation": 7, "device": 0, "stream": "stream 2", "kind": "kernel", "name": "add",
/// "from": "add.cu:12", "after": [5, 6]}, then {"event": "start", "operation": 7} and {"event": "end",
/// "operation": 7}. `after` are the operations that it waits for directly.
class Trace {
 public:
  /// An empty path: writes nothing.
  explicit Trace(const std::string& path);

  void enqueued(const Node& node);
  /// A collective starts when it first looks for its peers.
  void started(const Node& node) { note("start", node); }
  void ended(const Node& node) { note("end", node); }

 private:
  void note(const char* event, const Node& node);

  std::ofstream file_;
};

}  // namespace simgpu
