#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/export.h"
#include "kernels/layout.h"
#include "model/op.h"

namespace lockstep::model {

using ValueId = int;
inline constexpr ValueId no_value = -1;

/// `buffer`: kept from step to step like a parameter, but not learned (running statistics).
enum class Role { input, target, step_state, control, parameter, buffer, gradient, activation };

struct Value {
  std::string name;
  ValueType type;
  Role role = Role::activation;
  std::optional<kernels::Layout> layout;  ///< set by the layout pass
};

enum class Phase { forward, backward };

struct LOCKSTEP_API Node {
  int id = -1;  ///< stays through all passes, and is the same for every batch size: see `key`
  OpPtr op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string layer;  ///< for plans and messages: "conv1"
  Phase phase = Phase::forward;

  /// Unique in the graph, the same in every plan of a model: the key of selected algorithms.
  std::string key() const;
};

/// How a parameter starts: uniform in start +- bound. PyTorch's defaults for linear and convolution have a
/// bound only, those for the weights of norms a start of 1 only.
struct Initializer {
  float bound = 0;
  float start = 0;
};

struct Parameter {
  ValueId value = no_value;
  ValueId gradient = no_value;  ///< set by the differentiate pass
  Shape file_shape;             ///< in files; `value` may see the same numbers in more dimensions
  Initializer initializer;
};

/// A running statistic or the like; starts with all elements `start`.
struct Buffer {
  ValueId value = no_value;
  float start = 0;
};

/// A training step as a program in SSA form: nodes in order of execution, each value written by one node.
class LOCKSTEP_API Graph {
 public:
  ValueId add_value(std::string name, ValueType type, Role role);
  ValueId add_parameter(const std::string& name, const Shape& shape, Initializer initializer);
  ValueId add_buffer(const std::string& name, const Shape& shape, float start);

  /// Appends a node of forward; its outputs are typed by Op::infer and named after the layer. UsageError
  /// names the layer.
  std::vector<ValueId> add_node(OpPtr op, std::vector<ValueId> inputs, const std::string& layer);
  /// Appends a node of backward, whose outputs have these types.
  std::vector<ValueId> add_backward_node(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                         const std::string& layer);
  /// A node that copies `from` into a new value, right behind the node that writes `from`.
  ValueId insert_copy(ValueId from);

  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  std::size_t value_count() const { return values_.size(); }

  /// For a node that a pass adds itself.
  int new_node_id() { return next_id_++; }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

  /// What the network gives: logits or values. Evaluation, prediction and export need no more than it.
  ValueId output = no_value;

  std::int64_t parameter_elements() const;

  /// The one value with this role, or no_value.
  ValueId find(Role role) const;
  /// How many node inputs read `id`.
  std::size_t uses(ValueId id) const;
  /// Position of the node that writes `id`; none for inputs and parameters.
  std::optional<std::size_t> producer(ValueId id) const;
  /// Every reader of `from` reads `to` instead.
  void replace_uses(ValueId from, ValueId to);

  /// Descriptions of a node's tensors as kernels take them.
  kernels::KernelIo io(const Node& node) const;
  Types types(std::span<const ValueId> ids) const;

 private:
  std::vector<ValueId> append(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                              const std::string& layer, Phase phase);
  void require_new_name(const std::string& name) const;

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
  int next_id_ = 0;
};

}  // namespace lockstep::model
