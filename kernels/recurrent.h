#pragma once

#include <algorithm>
#include <limits>

#include "kernels/matmul.h"
#include "kernels/op.h"

/// Recurrent layers over all steps of a sequence, as torch.nn.RNN and torch.nn.LSTM (Hochreiter, Schmidhuber,
/// "Long short-term memory", 1997) compute one layer in one direction. Tensors are steps first, as those are
/// by default: a step of all rows is one matrix, and the states before each step are those behind it, a step
/// further. The input's part of all steps, with both biases, x W_ih^T + b_ih + b_hh, is a product of its own
/// (kernels/linear.h); these ops take it as `pre` (T, N, G H), G gates of H units. A row that has less
/// than T steps (`lengths`) stands still from its last one on: what the ops write there is 0, and no
/// gradient comes from there. States are f32 inside, whatever the operands are.
namespace lockstep::kernels {

/// Rows, steps and units of a layer.
struct RecurrentSize {
  std::int64_t steps, rows, hidden;

  /// Multiply-adds count as two. Of all steps.
  double flops(std::int64_t gates) const {
    return static_cast<double>(rows * steps) * 2 * static_cast<double>(gates * hidden * hidden);
  }
};

/// Of states, (T, N, H).
inline RecurrentSize recurrent_size(const Shape& states) {
  return {states[0], states[1], states[2]};
}

/// Of the gates of all states, (T, N, G H).
inline RecurrentSize size_of_gates(const Shape& shape, std::int64_t gates) {
  return {shape[0], shape[1], shape[2] / gates};
}

/// What a SIMD kernel computes at a call: units [first, first + count) of all rows, in one step.
struct RecurrentPart {
  static constexpr std::int64_t columns =
      64;  ///< of a row of PanelProduct: the units' gates, one behind another

  RecurrentSize size;
  DType dtype;         ///< of tensors: f32 or bf16
  DType factor_dtype;  ///< of what the next product takes: f32, or as dtype
  std::int64_t step, first, count;
  const std::int64_t* lengths;  ///< by row, or null

  /// Whether it is the row's last step.
  bool is_last(std::int64_t row) const {
    return step + 1 == (lengths == nullptr ? size.steps : std::min(lengths[row], size.steps));
  }
};

/// Products of states and weights, from the part's first unit on: rows and gates are so far apart.
struct RecurrentProducts {
  const float* at;
  std::int64_t row, gate;
};

/// What the next product takes, whole rows.
struct RecurrentFactors {
  void* at;
  std::int64_t row;
};

/// Whole tensors, but for the products.
struct RecurrentForward {
  const void* pre;
  RecurrentProducts product;
  RecurrentFactors h;
  float* c;  ///< (N, H), as are `dc` and `before`
  void* gates;
  void* y;
  float* cells;
};

/// The products are d loss / d state by the step behind.
struct RecurrentBackward {
  const void* dy;       ///< with `zeros` (N, H)
  const void* zeros;    ///< (H) in front of each row's last step, where dy is that of the last alone; or null
  const float* dcells;  ///< or null
  const void* gates;
  const void* y;
  const float* cells;
  const float* before;  ///< cells before the first step
  RecurrentProducts product;
  float* dc;
  RecurrentFactors d;
  void* dpre;
};

/// Operands that an op does not have go by this index.
inline constexpr std::size_t no_operand = std::numeric_limits<std::size_t>::max();

enum class Nonlinearity { tanh, relu };

constexpr std::string_view name_of(Nonlinearity function) {
  return function == Nonlinearity::relu ? "relu" : "tanh";
}

/// `operands`: pre, weight, and then what the op takes of h0, c0 and lengths.
inline RecurrentSize check_recurrent(TypeSpan operands, std::int64_t gates, std::size_t states,
                                     bool lengths) {
  const std::size_t count = 2 + states + (lengths ? 1 : 0);
  require_count(operands, count, count);
  const TensorType& pre = operands[0];
  require_floats("x", pre);
  require_rank("x", pre, 3);
  require_rank("the recurrent weights", operands[1], 2);
  const std::int64_t hidden = operands[1].shape[1];
  const std::int64_t columns = gates * hidden;
  const std::int64_t rows = pre.shape[1];
  if (pre.shape[0] < 1) throw_misfit("x " + pre.shape.str() + " has no steps");
  require_type("x", pre, {pre.dtype, {pre.shape[0], rows, columns}});
  require_type("the recurrent weights", operands[1], {pre.dtype, {columns, hidden}});
  for (std::size_t i = 0; i < states; ++i) {
    require_type(i == 0 ? "h0" : "c0", operands[2 + i], {pre.dtype, {rows, hidden}});
  }
  if (lengths) require_type("lengths", operands[2 + states], {DType::i64, {rows}});
  return {pre.shape[0], rows, hidden};
}

/// The operands of forward as its gradient knows them: `pre` is like its gradient.
inline Types forward_operands_of(const TensorType& pre, const TensorType& weight, TypeSpan optional) {
  Types operands{pre, weight};
  operands.insert(operands.end(), optional.begin(), optional.end());
  return operands;
}

inline TensorType states_of(const RecurrentSize& size, DType dtype) {
  return {dtype, {size.steps, size.rows, size.hidden}};
}

/// As it would be of all steps; `dpre`: of them.
inline TensorType dy_of_steps(const TensorType& dy, bool last, const TensorType& dpre) {
  if (!last) return dy;
  require_rank("dy of the last step", dy, 2);
  return {dy.dtype, {dpre.shape[0], dy.shape[0], dy.shape[1]}};
}

/// h_t = f(pre_t + W_hh h_(t-1)); y has all of them.
struct Rnn {
  static constexpr std::string_view name = "rnn";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::size_t overwrites = 0;
  static constexpr std::int64_t gates = 1;
  enum In : std::size_t { pre, weight, states };
  enum Out : std::size_t { y };
  using Simd = void(const Rnn&, const RecurrentPart&, const RecurrentForward&);

  Nonlinearity nonlinearity = Nonlinearity::tanh;
  bool initial = false;  ///< h0 is given, else it is 0
  bool lengths = false;  ///< lengths are given, else every row has T steps
  MatmulPrecision precision = MatmulPrecision::highest;

  std::size_t initial_states() const { return initial ? 1 : 0; }
  std::size_t optional() const {
    return initial_states() + (lengths ? 1 : 0);
  }  ///< operands from `states` on
  std::size_t h0(std::size_t first = states) const { return initial ? first : no_operand; }
  std::size_t lengths_at(std::size_t first = states) const {
    return lengths ? first + initial_states() : no_operand;
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("nonlinearity", name_of(nonlinearity));
    visit("h0", initial);
    visit("lengths", lengths);
    visit("precision", precision);
  }

  Types infer(TypeSpan in) const {
    return {states_of(check_recurrent(in, gates, initial_states(), lengths), in[pre].dtype)};
  }

  double flops(TypeSpan, TypeSpan out) const { return recurrent_size(out[y].shape).flops(gates); }
};

/// The gradient of W_hh is that of a linear map, of `dpre` and the states before each step. dy (T, N, H) is
/// that of all h, or with `last` (N, H) that of each row's last one, where nothing else of y was read.
struct RnnBackward {
  static constexpr std::string_view name = "rnn_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::int64_t gates = Rnn::gates;
  enum In : std::size_t { dy, y, weight, states };  ///< from states on as forward
  enum Out : std::size_t { dpre, dh0 };
  using Simd = void(const RnnBackward&, const RecurrentPart&, const RecurrentBackward&);

  Rnn forward{};
  bool last = false;

  std::size_t h0() const { return forward.h0(states); }
  std::size_t lengths_at() const { return forward.lengths_at(states); }

  template <class Visit>
  void fields(Visit&& visit) const {
    forward.fields(visit);
    visit("last step", last);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, states + forward.optional(), states + forward.optional());
    require_count(out, 1 + forward.initial_states(), 1 + forward.initial_states());
    const Types inputs = forward_operands_of(out[dpre], in[weight], in.subspan(states));
    require_forward(forward, inputs, Types{dy_of_steps(in[dy], last, out[dpre])});
    require_forward(forward, inputs, Types{in[y]});
    if (forward.initial) require_type("the gradient of h0", out[dh0], in[h0()]);
  }

  double flops(TypeSpan, TypeSpan out) const { return size_of_gates(out[dpre].shape, gates).flops(gates); }
};

/// (i, f, g, o) = pre_t + W_hh h_(t-1) through sigmoid, sigmoid, tanh, sigmoid: the gates;
/// c_t = f c_(t-1) + i g; h_t = o tanh(c_t). y has all h, cells (f32) all c.
struct Lstm {
  static constexpr std::string_view name = "lstm";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::size_t overwrites = 0;
  static constexpr std::int64_t gates = 4;
  enum In : std::size_t { pre, weight, states };
  enum Out : std::size_t { activations, y, cells };
  using Simd = void(const Lstm&, const RecurrentPart&, const RecurrentForward&);

  bool initial = false;  ///< h0 and c0 are given, else they are 0
  bool lengths = false;  ///< lengths are given, else every row has T steps
  MatmulPrecision precision = MatmulPrecision::highest;

  std::size_t initial_states() const { return initial ? 2 : 0; }
  std::size_t optional() const {
    return initial_states() + (lengths ? 1 : 0);
  }  ///< operands from `states` on
  std::size_t h0(std::size_t first = states) const { return initial ? first : no_operand; }
  std::size_t c0(std::size_t first = states) const { return initial ? first + 1 : no_operand; }
  std::size_t lengths_at(std::size_t first = states) const {
    return lengths ? first + initial_states() : no_operand;
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("h0 and c0", initial);
    visit("lengths", lengths);
    visit("precision", precision);
  }

  Types infer(TypeSpan in) const {
    const RecurrentSize size = check_recurrent(in, gates, initial_states(), lengths);
    return {in[pre], states_of(size, in[pre].dtype), states_of(size, DType::f32)};
  }

  double flops(TypeSpan, TypeSpan out) const { return recurrent_size(out[y].shape).flops(gates); }
};

/// As RnnBackward. `dcells` (f32) is there if anything but this layer read the cells.
struct LstmBackward {
  static constexpr std::string_view name = "lstm_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  static constexpr std::size_t overwrites = 0;
  static constexpr std::int64_t gates = Lstm::gates;
  enum In : std::size_t { activations, dy, cells, weight, states };  ///< from states on as forward
  enum Out : std::size_t { dpre, dh0, dc0 };
  using Simd = void(const LstmBackward&, const RecurrentPart&, const RecurrentBackward&);

  Lstm forward{};
  bool cell_gradients = false;
  bool last = false;

  std::size_t h0() const { return forward.h0(states); }
  std::size_t c0() const { return forward.c0(states); }
  std::size_t lengths_at() const { return forward.lengths_at(states); }
  std::size_t dcells() const { return cell_gradients ? states + forward.optional() : no_operand; }

  template <class Visit>
  void fields(Visit&& visit) const {
    forward.fields(visit);
    visit("cell gradients", cell_gradients);
    visit("last step", last);
  }

  void check(TypeSpan in, TypeSpan out) const {
    const std::size_t count = states + forward.optional() + (cell_gradients ? 1 : 0);
    require_count(in, count, count);
    require_count(out, 1 + forward.initial_states(), 1 + forward.initial_states());
    const Types inputs = forward_operands_of(out[dpre], in[weight], in.subspan(states, forward.optional()));
    require_forward(forward, inputs, Types{in[activations], dy_of_steps(in[dy], last, out[dpre]), in[cells]});
    if (cell_gradients) require_type("the gradient of the cells", in[dcells()], in[cells]);
    if (!forward.initial) return;
    require_type("the gradient of h0", out[dh0], in[h0()]);
    require_type("the gradient of c0", out[dc0], in[c0()]);
  }

  double flops(TypeSpan, TypeSpan out) const { return size_of_gates(out[dpre].shape, gates).flops(gates); }
};

}  // namespace lockstep::kernels
