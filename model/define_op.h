#pragma once

// What a file of model/ops needs: Backward for its gradient function, `apply` for the layer that models call.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/export.h"
#include "model/graph.h"
#include "model/layers.h"
#include "model/spec_op.h"

namespace lockstep::model {

/// What an op's gradient function works with: one node of forward, the gradients of its outputs, and the
/// graph, to which it appends backward nodes.
class LOCKSTEP_API Backward {
 public:
  /// `gradients`: by value id, no_value where none is known yet; `needed`: by value id.
  Backward(Graph& graph, const Node& node, std::vector<ValueId>& gradients, const std::vector<bool>& needed)
      : graph_(graph), node_(node), gradients_(gradients), needed_(needed) {}

  ValueId input(std::size_t index) const { return node_.inputs[index]; }
  bool has_input(std::size_t index) const { return index < node_.inputs.size(); }
  ValueId output(std::size_t index = 0) const { return node_.outputs[index]; }
  const ValueType& type(ValueId id) const { return graph_.value(id).type; }

  /// d loss / d output: zeros for an output that no node reads.
  ValueId output_gradient(std::size_t index = 0);
  /// Whether any node that the loss depends on read it.
  bool has_output_gradient(std::size_t index) const {
    return gradients_[static_cast<std::size_t>(node_.outputs[index])] != no_value;
  }
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
  /// The same with an output of each of these types.
  std::vector<ValueId> add_nodes(OpPtr op, std::vector<ValueId> operands, const Types& types);

 private:
  void add_gradient_node(OpPtr op, std::vector<ValueId> operands, const std::vector<std::size_t>& of_inputs);

  Graph& graph_;
  const Node& node_;
  std::vector<ValueId>& gradients_;
  const std::vector<bool>& needed_;
};

/// Adds the node of `op`; gives its outputs. UsageError with the layer's name for inputs that do not fit, and
/// for those of another graph.
LOCKSTEP_API std::vector<Tensor> apply_op(Graph& graph, OpPtr op, const std::vector<Tensor>& inputs,
                                          const std::string& layer);

/// The same with the op of `spec`.
template <class Spec>
std::vector<Tensor> apply_all(Graph& graph, Spec spec, Gradient<Spec> gradient,
                              const std::vector<Tensor>& inputs, const std::string& layer) {
  return apply_op(graph, make_op(std::move(spec), gradient), inputs, layer);
}

/// The same for an op with one output.
template <class Spec>
Tensor apply(Graph& graph, Spec spec, Gradient<Spec> gradient, const std::vector<Tensor>& inputs,
             const std::string& layer) {
  return apply_all(graph, std::move(spec), gradient, inputs, layer).front();
}

/// x W^T + b of parameters that are there, as the layer of this name.
Tensor apply_linear(Tensor x, Tensor weight, Tensor bias, const std::string& layer);

/// "fc1.weight". A network that is one bare layer has parameters without a prefix, as nn.Linear alone has in
/// PyTorch.
LOCKSTEP_API std::string parameter_name(const std::string& layer, const char* parameter);

/// The layer that a parameter names: "fc1" for "fc1.weight".
LOCKSTEP_API std::string layer_of(Tensor parameter);

/// torch.nn's reset_parameters: kaiming_uniform with a = sqrt(5) is uniform in +-1/sqrt(fan_in), as is the
/// bias.
LOCKSTEP_API Initializer uniform_by_fan_in(std::int64_t fan_in);

struct WeightAndBias {
  Initializer weight;
  Initializer bias;
};
/// How a layer's weight and bias start: as was asked for, with a bias of zeros, or both by the fan in.
LOCKSTEP_API WeightAndBias initializers(const std::optional<Initializer>& asked, std::int64_t fan_in);

}  // namespace lockstep::model
