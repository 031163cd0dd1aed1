#include "tests/simgpu/machine/node.h"

#include <algorithm>

namespace simgpu {

bool Node::ready() const {
  return std::all_of(waits_for.begin(), waits_for.end(), [](const NodePtr& node) { return node->done; });
}

}  // namespace simgpu
