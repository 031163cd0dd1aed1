#pragma once

#include "model/graph.h"

namespace lockstep::runtime {

/// A pass that walks the nodes drops some of them and erases those at its end, so that references to others
/// stay good meanwhile. A dropped node has no op.
inline void drop(model::Node& node) {
  node = model::Node{};
}

inline void erase_dropped(model::Graph& graph) {
  std::erase_if(graph.nodes(), [](const model::Node& node) { return node.op == nullptr; });
}

/// The description, if its type is `Spec`; null otherwise, and of a dropped node.
template <class Spec>
const Spec* as(const model::Node& node) {
  return node.op == nullptr ? nullptr : node.op->as<Spec>();
}

}  // namespace lockstep::runtime
