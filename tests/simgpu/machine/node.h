#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/simgpu/machine/origin.h"
#include "tests/simgpu/machine/vector_clock.h"
#include "tests/simgpu/operation.h"

namespace simgpu {

struct Node;
using NodePtr = std::shared_ptr<Node>;

/// Who made an operation, for reports.
struct NodeInfo {
  std::string name;
  std::string where;  ///< "stream 2"
  Origin origin;

  std::string describe() const { return name + " on " + where + " (" + origin.text() + ")"; }
};
using NodeInfoPtr = std::shared_ptr<const NodeInfo>;

/// An operation, or a mark in a stream (nothing to run), that was handed to the machine.
struct Node {
  Operation operation;
  NodeInfoPtr info;
  int device = 0;
  int priority = 0;                ///< the lower goes first
  std::uint64_t sequence = 0;      ///< of all nodes, in the order of the calls
  std::vector<NodePtr> waits_for;  ///< emptied when done, as operation.run is
  VectorClock clock;               ///< what happens before its end, itself included
  Stamp stamp;                     ///< itself
  double microseconds = 0;         ///< the time that it is said to take
  double finished_at = 0;          ///< on the fake clock, once done
  bool started = false;            ///< has run, though maybe not to its end
  bool done = false;

  bool ready() const;
};

}  // namespace simgpu
