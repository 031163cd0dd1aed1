#pragma once

namespace simgpu {

struct Node;

/// What the calling thread does for the machine at this moment.
struct Running {
  const Node* node = nullptr;  ///< the operation that it runs
  int device = 0;              ///< what current_device() says
};

Running& running();

}  // namespace simgpu
