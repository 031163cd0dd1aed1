#pragma once

#include <vector>

#include "model/graph.h"
#include "model/spec_op.h"

namespace lockstep::model {

/// What an op's gradient function works with: one node of forward, the gradients of its outputs, and the
/// graph, to which it appends backward nodes.
class Backward {
 public:
  /// `gradients`: by value id, no_value where none is known yet; `needed`: by value id.
  Backward(Graph& graph, const Node& node, std::vector<ValueId>& gradients, const std::vector<bool>& needed)
      : graph_(graph), node_(node), gradients_(gradients), needed_(needed) {}

  ValueId input(std::size_t index) const { return node_.inputs[index]; }
  bool has_input(std::size_t index) const { return index < node_.inputs.size(); }
  ValueId output(std::size_t index = 0) const { return node_.outputs[index]; }
  const ValueType& type(ValueId id) const { return graph_.value(id).type; }

  /// d loss / d output: zeros for an output that nobody used.
  ValueId output_gradient(std::size_t index = 0);
  bool needs(std::size_t input_index) const {
    return needed_[static_cast<std::size_t>(node_.inputs[input_index])];
  }

  /// Adds the node of `spec`, whose outputs are the gradients of these inputs: each has the type of its value
  /// and is added to what is known of d loss / d input. Nothing if none is needed.
  template <class Spec>
  void add_gradients(Spec spec, std::vector<ValueId> operands, const std::vector<std::size_t>& of_inputs) {
    add_gradient_node(make_op(std::move(spec)), std::move(operands), of_inputs);
  }

  /// Adds `gradient`, which has the type of the input, to what is known of d loss / d input.
  void contribute(std::size_t input_index, ValueId gradient);

  /// A node whose output is no gradient of an input itself.
  ValueId add_node(OpPtr op, std::vector<ValueId> operands, const ValueType& type);

 private:
  void add_gradient_node(OpPtr op, std::vector<ValueId> operands, const std::vector<std::size_t>& of_inputs);

  Graph& graph_;
  const Node& node_;
  std::vector<ValueId>& gradients_;
  const std::vector<bool>& needed_;
};

}  // namespace lockstep::model
