#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/export.h"
#include "kernels/base/philox.h"
#include "kernels/layout.h"
#include "model/op.h"

namespace lockstep::model {

using ValueId = int;
inline constexpr ValueId no_value = -1;

/// `buffer`: kept from step to step like a parameter, but not learned (running statistics). `statistics`:
/// summed over all ranks behind the node that writes it, before another node reads it. `gradient_sum`: kept
/// from micro-batch to micro-batch of a step. `parameter_copy`: a parameter in another type, written by what
/// changes the parameter, never by a node. `states`: what recurrent layers start from, as the samples bring
/// it. `cache`: kept as a node left it, until it writes again. `positions`, `cache_rows` and `cache`: of a
/// graph that decodes, see Decoding. `rows`: this rank's part of a gradient, as a list of rows
/// (kernels/row_list.h) that all ranks exchange. `stored`: samples that the device keeps, of all batches.
enum class Role {
  input,
  stored,
  target,
  states,
  positions,
  cache_rows,
  step_state,
  control,
  parameter,
  parameter_copy,
  buffer,
  gradient,
  gradient_sum,
  statistics,
  cache,
  rows,
  activation
};

struct Value {
  std::string name;
  ValueType type;
  Role role = Role::activation;
  std::optional<kernels::Layout> layout;  ///< set by the layout pass
};

enum class Phase { forward, backward };

inline constexpr int no_segment = -1;

/// An op of the graph with the values that it reads and writes.
struct LOCKSTEP_API Node {
  int id = -1;  ///< stays through all passes, and is the same for every batch size: see `key`
  OpPtr op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string layer;  ///< for plans and messages: "conv1"
  Phase phase = Phase::forward;
  int segment = no_segment;  ///< of forward: see model::segment

  /// Unique in the graph, the same in every plan of a model: the key of selected algorithms.
  std::string key() const;
};

/// How a parameter starts: uniform in start +- bound, or normal around start where there is a deviation.
/// PyTorch's defaults for linear and convolution have a bound only, those for the weights of norms a start of
/// 1 only.
struct Initializer {
  float bound = 0;
  float start = 0;
  float deviation = 0;
};
/// Numbers 0, 1, ... of `random`, spread as `initializer` says.
void draw(const Initializer& initializer, const Philox& random, std::span<float> values);

/// A parameter of the model, and the values that passes make for it.
struct Parameter {
  ValueId value = no_value;
  ValueId gradient = no_value;  ///< set by the differentiate pass
  /// In f32, of the step's micro-batches so far: where the gradient itself is narrower.
  ValueId gradient_sum = no_value;
  ValueId copy = no_value;  ///< in the type that layers compute in (mixed precision)
  /// Rows that all ranks add to the gradient, which holds the rest, or nothing if no node writes it.
  ValueId rows = no_value;
  Shape file_shape;  ///< in files; `value` may see the same numbers in more dimensions
  Initializer initializer;
  bool frozen = false;           ///< keeps its value: no gradient, no optimizer state
  bool file_transposed = false;  ///< files hold the matrix (I, O) of what is (O, I) here
};

/// A running statistic (f32), or a count (i64); starts with all elements `start`.
struct Buffer {
  ValueId value = no_value;
  float start = 0;
};
/// The bytes of a new one, as words of 4.
std::vector<float> initial_words(const Buffer& buffer, const ValueType& type);

/// A graph that extends sequences: its inputs are a few new tokens of each row, and what later ones need of
/// earlier ones stays in caches from run to run, in all plans of that model. Of a model with an encoder the
/// inputs are each row's source with the new tokens of its target behind it.
struct Decoding {
  std::int64_t capacity = 0;     ///< tokens of a row that the caches hold
  ValueId positions = no_value;  ///< (N, T) i64, of each new token in its row; -1: padding
  /// (N, capacity) i64, where rows share what they have in common: in which row of the caches each earlier
  /// token of a row lies. no_value: in its own.
  ValueId cache_rows = no_value;
  /// Caches that follow from the source and the weights alone: written once, when a source is taken in.
  std::vector<ValueId> of_source{};
  bool suspended = false;  ///< see WholeSequences
};

/// Tells a graph from every other, those that are gone included. A copy is another graph; one that is
/// assigned to stays what it was.
class GraphIdentity {
 public:
  GraphIdentity() = default;
  GraphIdentity(const GraphIdentity&) : GraphIdentity() {}
  GraphIdentity& operator=(const GraphIdentity&) { return *this; }
  ~GraphIdentity() = default;
  /// Expires with the graph.
  std::weak_ptr<const void> watch() const { return token_; }

 private:
  std::shared_ptr<const void> token_ = std::make_shared<char>();
};

/// UsageError.
[[noreturn]] LOCKSTEP_API void throw_stray_tensor();

/// A training step as a program in SSA form: nodes in order of execution, each value written by one node.
class LOCKSTEP_API Graph {
 public:
  ValueId add_value(std::string name, ValueType type, Role role);
  /// UsageError for a name that is taken or that no file of weights can keep, and for an initializer that is
  /// not finite.
  ValueId add_parameter(const std::string& name, const Shape& shape, Initializer initializer);
  ValueId add_buffer(const std::string& name, const Shape& shape, float start, DType dtype = DType::f32);
  ValueId add_statistics(const std::string& name, const ValueType& type);
  /// kernels::StepState, for ops that read it; the same value each time.
  ValueId step_state();

  /// Appends a node of forward; its outputs are typed by Op::infer and named after the layer. UsageError
  /// names the layer.
  std::vector<ValueId> add_node(OpPtr op, std::vector<ValueId> inputs, const std::string& layer);
  /// The same where nothing implies the types of its outputs: of a constant.
  std::vector<ValueId> add_node(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                const std::string& layer);
  /// Appends a node of backward, whose outputs have these types.
  std::vector<ValueId> add_backward_node(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                                         const std::string& layer);
  /// Appends a node that changes `buffers`, its outputs. It runs among the updates of a training step: behind
  /// backward, and with a skipped update it does nothing.
  void add_update_node(OpPtr op, std::vector<ValueId> inputs, std::vector<ValueId> buffers,
                       const std::string& layer);
  bool is_update(const Node& node) const;
  /// A node that copies the gradient `from` into a new value, right behind the node that writes `from`. It is
  /// of backward also where a loss writes that: forward writes to no gradient.
  ValueId insert_copy(ValueId from);

  Value& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<std::size_t>(id)]; }
  /// The same of what a model hands to a layer. UsageError for a value that is not here.
  const Value& given(ValueId id) const;
  std::size_t value_count() const { return values_.size(); }

  /// Forward nodes added from here on are a segment, until its end. Gives false inside another segment, to
  /// which they then belong.
  bool begin_segment();
  void end_segment() { segment_ = no_segment; }

  /// Puts a node that a pass has made behind the one at `place`, with an id of its own.
  void insert_after(std::size_t place, Node node);
  /// For a node that a pass puts among `nodes` itself.
  int new_node_id() { return next_id_++; }
  /// What an op that drops elements draws by: its place among such ops alone, so that the nodes that a
  /// device, a data set or a short batch adds change nothing.
  int new_dropout_stream() { return next_stream_++; }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const std::vector<ValueId>& statistics() const { return statistics_; }

  /// Whether this is a training step: dropout drops, batch norm normalises by the batch. Set before layers
  /// are added.
  bool training = false;

  /// Layers between positions of a sequence then work on new tokens and caches. Set before layers are added.
  std::optional<Decoding> decoding;
  /// Whether layers are to do so now.
  bool decodes() const { return decoding && !decoding->suspended; }
  /// The value keeps its contents from run to run; a node that writes it may leave a part as it was.
  void keep_as_cache(ValueId id) { value(id).role = Role::cache; }
  void keep_from_source(ValueId id);

  /// Whether recurrent layers give `final_states`. Set before layers are added.
  bool returns_states = false;
  /// The states behind each row's last step, f32 (N, 1 or 2, layers, hidden); no_value: nobody asked for
  /// them.
  ValueId final_states = no_value;

  /// What the network gives: logits or values. Evaluation, prediction and export need no more than it.
  ValueId output = no_value;

  std::int64_t parameter_elements() const;

  std::weak_ptr<const void> identity() const { return identity_.watch(); }

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
  /// UsageError for a value that is not here.
  Types types(std::span<const ValueId> ids) const;

 private:
  std::vector<ValueId> append(OpPtr op, std::vector<ValueId> inputs, const Types& outputs,
                              const std::string& layer, Phase phase);
  void require_new_name(const std::string& name) const;

  GraphIdentity identity_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
  std::vector<ValueId> statistics_;
  int next_id_ = 0;
  int next_stream_ = 0;
  int segment_ = no_segment;  ///< that is open
  int segments_ = 0;
};

}  // namespace lockstep::model
