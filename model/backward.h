#pragma once

#include <string>
#include <vector>

#include "model/graph.h"

namespace lockstep::model {

/// What Op::differentiate works with: one node of forward, the gradients of its outputs, and the graph, to
/// which it appends backward nodes.
class Backward {
 public:
  /// `gradients`: by value id, no_value where none is known yet; `needed`: by value id.
  Backward(Graph& graph, const Node& node, std::vector<ValueId>& gradients, const std::vector<bool>& needed)
      : graph_(graph), node_(node), gradients_(gradients), needed_(needed) {}

  const Node& node() const { return node_; }
  ValueId input(std::size_t index) const { return node_.inputs[index]; }
  ValueId output(std::size_t index = 0) const { return node_.outputs[index]; }
  const ValueType& type(ValueId id) const { return graph_.value(id).type; }

  /// d loss / d output.
  ValueId output_gradient(std::size_t index = 0) const {
    return gradients_[static_cast<std::size_t>(node_.outputs[index])];
  }
  bool needs(std::size_t input_index) const {
    return needed_[static_cast<std::size_t>(node_.inputs[input_index])];
  }

  std::vector<ValueId> add_node(OpPtr op, std::vector<ValueId> inputs);
  /// Adds `gradient` to what is known of d loss / d input.
  void contribute(std::size_t input_index, ValueId gradient);

 private:
  Graph& graph_;
  const Node& node_;
  std::vector<ValueId>& gradients_;
  const std::vector<bool>& needed_;
};

}  // namespace lockstep::model
