#include "kernels/recurrent.h"

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/fill.h"
#include "kernels/linear.h"
#include "kernels/split.h"
#include "kernels/view.h"
#include "model/define_op.h"

namespace lockstep::model {
namespace {

using kernels::Lstm;
using kernels::LstmBackward;
using kernels::Rnn;
using kernels::RnnBackward;

/// What stands behind the weights: the states before the first step and the lengths.
void append_optional(const Backward& backward, std::size_t first, std::vector<ValueId>& operands) {
  for (std::size_t i = first; backward.has_input(i); ++i) operands.push_back(backward.input(i));
}

/// x (T, ...) in two: its first `steps` steps, and the others.
std::vector<ValueId> cut(Backward& backward, ValueId x, std::int64_t steps) {
  const kernels::Split split{.sizes = {steps, backward.type(x).shape[0] - steps}, .dim = 0};
  const ValueType whole = backward.type(x);
  return backward.add_nodes(make_op(split), {x}, split.infer(std::span(&whole, 1)));
}

/// That of the states before each step and `dpre`. Those before the first step are a product of their own:
/// where none are given they are 0, and the others' sum has the same bits.
template <class Op>
void add_weight_gradient(Backward& backward, const Op& op, ValueId dpre) {
  if (!backward.needs(Op::weight)) return;
  const ValueId y = backward.output(Op::y);
  const ValueType states = backward.type(y);
  const std::int64_t steps = states.shape[0];
  const std::vector<ValueId> parts = steps > 1 ? cut(backward, dpre, 1) : std::vector{dpre};
  const auto add_product = [&](ValueId previous, ValueId of_gates) {
    backward.add_gradients(kernels::LinearBackwardWeights{}, {previous, of_gates}, {Op::weight});
  };
  if (steps > 1) add_product(cut(backward, y, steps - 1).front(), parts.back());
  if (op.initial) {
    const ValueType first{states.dtype, {1, states.shape[1], states.shape[2]}};
    const ValueId h0 = backward.input(op.h0());
    add_product(backward.add_node(make_op(kernels::Reshape{first.shape}), {h0}, first), parts.front());
  } else if (steps == 1) {
    backward.add_gradients(kernels::Fill{}, {}, {Op::weight});
  }
}

/// Adds the node of `back`. Its gradients are those of `pre` and of the states before the first step.
template <class Op, class OpBackward>
void add_backward(Backward& backward, OpBackward back, std::vector<ValueId> operands) {
  const Op op = back.forward;
  const std::size_t states = op.initial_states();
  Types types{backward.type(backward.input(Op::pre))};
  for (std::size_t i = 0; i < states; ++i) types.push_back(backward.type(backward.input(Op::states + i)));
  const auto outputs = backward.add_nodes(make_op(std::move(back)), std::move(operands), types);
  backward.contribute(Op::pre, outputs[OpBackward::dpre]);
  for (std::size_t i = 0; i < states; ++i) backward.contribute(Op::states + i, outputs[OpBackward::dh0 + i]);
  add_weight_gradient(backward, op, outputs[OpBackward::dpre]);
}

void differentiate(const Rnn& op, Backward& backward) {
  std::vector<ValueId> operands{backward.output_gradient(), backward.output(Rnn::y),
                                backward.input(Rnn::weight)};
  append_optional(backward, Rnn::states, operands);
  add_backward<Rnn>(backward, RnnBackward{.forward = op}, std::move(operands));
}

void differentiate(const Lstm& op, Backward& backward) {
  const bool cell_gradients = backward.has_output_gradient(Lstm::cells);
  std::vector<ValueId> operands{backward.output(Lstm::activations), backward.output_gradient(Lstm::y),
                                backward.output(Lstm::cells), backward.input(Lstm::weight)};
  append_optional(backward, Lstm::states, operands);
  if (cell_gradients) operands.push_back(backward.output_gradient(Lstm::cells));
  add_backward<Lstm>(backward, LstmBackward{.forward = op, .cell_gradients = cell_gradients},
                     std::move(operands));
}

/// One layer's parameters, in the order of torch.nn.
struct LayerWeights {
  Tensor input_weight, weight, input_bias, bias;
};

LayerWeights weights_of(Graph& graph, const std::string& name, std::int64_t layer, std::int64_t columns,
                        std::int64_t in_features, std::int64_t hidden) {
  const Initializer uniform = uniform_by_fan_in(hidden);
  const auto add = [&](const char* kind, const Shape& shape) {
    return parameter(graph, parameter_name(name, fmt::format("{}_l{}", kind, layer).c_str()), shape, uniform);
  };
  return {.input_weight = add("weight_ih", {columns, in_features}),
          .weight = add("weight_hh", {columns, hidden}),
          .input_bias = add("bias_ih", {columns}),
          .bias = add("bias_hh", {columns})};
}

struct Stack {
  std::int64_t hidden, layers;
  double dropout;
  std::size_t states;  ///< that a layer has
};

void require_stack(const char* kind, const std::string& name, const Shape& x, const Stack& stack,
                   const RecurrentStates& initial) {
  const auto layers = static_cast<std::size_t>(stack.layers);
  if (x.rank() != 3 || x[2] < 1 || stack.hidden < 1 || stack.layers < 1) {
    throw UsageError(fmt::format("layer '{}' ({}): input {}, {} layers of {} units: (T, N, features) wanted",
                                 name, kind, x.str(), stack.layers, stack.hidden));
  }
  const bool given = !initial.h.empty() || !initial.c.empty();
  if (!given || (initial.h.size() == layers && initial.c.size() == (stack.states == 2 ? layers : 0))) return;
  throw UsageError(fmt::format("layer '{}' ({}): {} h0 and {} c0 for {} layers", name, kind, initial.h.size(),
                               initial.c.size(), layers));
}

/// One layer, behind the product with its inputs.
template <class Op>
RecurrentOutput steps_of(Op op, Tensor pre, Tensor weight, const std::optional<Tensor>& lengths,
                         const RecurrentStates& initial, const std::string& layer) {
  op.initial = !initial.h.empty();
  op.lengths = lengths.has_value();
  std::vector<Tensor> inputs{pre, weight};
  for (const auto* states : {&initial.h, &initial.c})
    inputs.insert(inputs.end(), states->begin(), states->end());
  if (lengths) inputs.push_back(*lengths);
  const auto outputs = apply_all(pre.graph(), op, differentiate, inputs, layer);
  RecurrentOutput output{.y = outputs[Op::y], .steps = {.h = {outputs[Op::y]}, .c = {}}};
  if constexpr (requires { Op::cells; }) output.steps.c.push_back(outputs[Op::cells]);
  return output;
}

/// Layer upon layer of `op`.
template <class Op>
RecurrentOutput stacked(Op op, Tensor x, const std::string& name, const Stack& stack,
                        const std::optional<Tensor>& lengths, const RecurrentStates& initial) {
  require_stack(Op::name.data(), name, x.shape(), stack, initial);
  RecurrentOutput all{.y = x, .steps = {}};
  for (std::int64_t layer = 0; layer < stack.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    if (layer > 0) all.y = dropout(all.y, stack.dropout, true);
    const LayerWeights weights =
        weights_of(x.graph(), name, layer, Op::gates * stack.hidden, all.y.shape()[2], stack.hidden);
    RecurrentStates first;
    if (!initial.h.empty()) first.h = {initial.h[at]};
    if (!initial.c.empty()) first.c = {initial.c[at]};
    const Tensor pre = apply_linear(all.y, weights.input_weight, add(weights.input_bias, weights.bias), name);
    const RecurrentOutput output = steps_of(op, pre, weights.weight, lengths, first, name);
    all.y = output.y;
    all.steps.h.push_back(output.y);
    all.steps.c.insert(all.steps.c.end(), output.steps.c.begin(), output.steps.c.end());
  }
  return all;
}

kernels::Nonlinearity nonlinearity(bool relu) {
  return relu ? kernels::Nonlinearity::relu : kernels::Nonlinearity::tanh;
}

}  // namespace

RecurrentOutput rnn_steps(Tensor pre, Tensor weight_hh, bool relu, std::optional<Tensor> lengths,
                          const RecurrentStates& initial) {
  return steps_of(Rnn{.nonlinearity = nonlinearity(relu)}, pre, weight_hh, lengths, initial, "rnn");
}

RecurrentOutput lstm_steps(Tensor pre, Tensor weight_hh, std::optional<Tensor> lengths,
                           const RecurrentStates& initial) {
  return steps_of(Lstm{}, pre, weight_hh, lengths, initial, "lstm");
}

RecurrentOutput rnn(Tensor x, const std::string& name, RnnOptions options, std::optional<Tensor> lengths,
                    const RecurrentStates& initial) {
  return stacked(Rnn{.nonlinearity = nonlinearity(options.relu)}, x, name,
                 {options.hidden, options.layers, options.dropout, 1}, lengths, initial);
}

RecurrentOutput lstm(Tensor x, const std::string& name, LstmOptions options, std::optional<Tensor> lengths,
                     const RecurrentStates& initial) {
  return stacked(Lstm{}, x, name, {options.hidden, options.layers, options.dropout, 2}, lengths, initial);
}

RecurrentStates initial_states(Graph& graph) {
  const ValueId id = graph.find(Role::states);
  if (id == no_value) return {};
  const Shape shape = graph.value(id).type.shape;  // (N, h or h and c, layers, hidden)
  const std::int64_t parts = shape[1] * shape[2];
  const Tensor row = reshape(Tensor(graph, id), {shape[0], parts * shape[3]});
  const std::vector<Tensor> all =
      split(row, std::vector<std::int64_t>(static_cast<std::size_t>(parts), shape[3]), 1);
  const auto cells = all.begin() + shape[2];
  return {.h = {all.begin(), cells}, .c = {cells, all.end()}};
}

/// The cast is a copy of their own that no later node overwrites, in f32 whatever the layers compute in.
void return_states(const RecurrentStates& steps, std::optional<Tensor> lengths) {
  Graph& graph = steps.h.front().graph();
  if (!graph.returns_states) return;
  std::vector<Tensor> ends;
  for (const auto* kind : {&steps.h, &steps.c}) {
    for (const Tensor& state : *kind) ends.push_back(last_step(state, lengths));
  }
  const Shape of_layer = ends.front().shape();
  const std::int64_t layers = std::ssize(steps.h);
  const std::int64_t kinds = std::ssize(ends) / layers;
  const Tensor all = reshape(concat(ends, 1), {of_layer[0], kinds, layers, of_layer[1]});
  graph.final_states = cast(all, DType::f32).id();
  graph.keep_as_cache(graph.final_states);
}

}  // namespace lockstep::model
