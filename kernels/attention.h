#pragma once

#include <array>

#include "kernels/base/philox.h"
#include "kernels/dropout.h"
#include "kernels/op.h"
#include "kernels/step_state.h"

namespace lockstep::kernels {

struct AttentionHead;
struct AttentionGradients;

/// The random words of a head: probability (query, key) has word key % 4 of block
/// `dropout_block(query, key / 4)`, whatever the lengths are.
constexpr Philox attention_random(const Dropout& dropout, const StepState& at, std::int64_t sample,
                                  std::int64_t head) {
  const PhiloxCounter words = dropout.random(at).block(dropout_block(sample, head));
  return {std::uint64_t{words[0]} << 32 | words[1], std::uint64_t{words[2]} << 32 | words[3]};
}

/// Where q, k or v lies: which input, elements from row to row of it, and its first column.
struct AttentionPart {
  std::size_t tensor;
  std::int64_t row, column;
};

struct AttentionSize {
  std::int64_t samples, heads, queries, keys, dim;
  std::array<AttentionPart, 3> parts;  ///< q, k, v

  std::int64_t columns() const { return heads * dim; }
};

/// Scaled dot product attention of several heads: y = softmax(scale q k^T) v for each head, whose `dim`
/// columns lie side by side. q (N, T, heads * dim), k and v (N, S, heads * dim), of f32 or bf16 (f16 on
/// GPUs); y as q. They are read where a projection leaves them: `tensors` 3 is q, k and v; 2 is q and k|v
/// side by side; 1 is q|k|v. Then come, where `masked` says so, the keys' tokens (N, S) i64, of which -1 is
/// not looked at; with `documents` the positions (N, T) i64 of the tokens in their documents; and with p > 0
/// the step's state. `causal`: query t looks at keys 0 to t, with `documents` at keys t - positions[t] to t,
/// so at none where the position is -1. A query that may look at no key gives zeros. The logarithm of each
/// softmax's denominator (N, heads, T) is kept for backward; the probabilities are not: memory is linear in T
/// and S (T. Dao, "FlashAttention-2", arXiv 2307.08691). With p > 0 each probability is dropped as nn.Dropout
/// does.
struct Attention {
  static constexpr std::string_view name = "attention";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum Out : std::size_t { y, logsumexp };
  using Simd = void(const Attention&, const AttentionHead&, void* y, float* logsumexp, float* scratch);

  std::int64_t heads = 1;
  std::int64_t tensors = 3;
  bool causal = false;
  bool masked = false;
  bool documents = false;  ///< several in a row; only with `causal`, where T is S
  double scale = 1;
  double p = 0;             ///< in [0, 1)
  std::int64_t stream = 0;  ///< of the node: see Dropout

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("heads", heads);
    visit("tensors", tensors);
    visit("causal", causal);
    visit("masked", masked);
    visit("documents", documents);
    visit("scale", scale);
    visit("p", p);
    visit("stream", stream);
  }

  std::size_t parts() const { return static_cast<std::size_t>(tensors); }
  std::size_t tokens() const { return parts(); }
  std::size_t positions() const { return tokens() + (masked ? 1 : 0); }
  std::size_t state() const { return positions() + (documents ? 1 : 0); }
  std::size_t inputs() const { return state() + (p > 0 ? 1 : 0); }

  /// `in`: the operands from q on.
  AttentionSize size(TypeSpan in) const {
    const Shape& q = in.front().shape;
    const Shape& v = in[parts() - 1].shape;
    const std::int64_t columns = tensors == 1 ? q[2] / 3 : q[2];
    const std::int64_t of_q = tensors == 1 ? 3 * columns : columns;
    const std::int64_t of_k = tensors == 3 ? columns : tensors == 2 ? 2 * columns : of_q;
    const std::size_t k = tensors == 1 ? 0 : 1;
    return {.samples = q[0],
            .heads = heads,
            .queries = q[1],
            .keys = v[1],
            .dim = columns / heads,
            .parts = {AttentionPart{0, of_q, 0}, AttentionPart{k, of_k, tensors == 1 ? columns : 0},
                      AttentionPart{parts() - 1, of_k, tensors == 3 ? 0 : of_k - columns}}};
  }

  Types infer(TypeSpan in) const {
    if (tensors < 1 || tensors > 3 || heads < 1) throw_misfit("one to three tensors and a head are wanted");
    require_count(in, inputs(), inputs());
    for (std::size_t i = 0; i < parts(); ++i) {
      require_floats("queries, keys and values", in[i]);
      require_rank("queries, keys and values", in[i], 3);
      require_same_dtype("queries", in[0], "keys and values", in[i]);
    }
    const Shape& q = in[0].shape;
    const std::int64_t packed = heads * (tensors == 1 ? 3 : 1);
    if (q[2] < packed || q[2] % packed != 0) {
      throw_misfit("input " + q.str() + " does not divide among " + std::to_string(heads) + " heads");
    }
    const AttentionSize s = size(in);
    for (const AttentionPart& part : s.parts) {
      if (part.tensor > 0)
        require_type("keys and values", in[part.tensor], {in[0].dtype, {q[0], s.keys, part.row}});
    }
    if (masked) require_type("the keys' tokens", in[tokens()], {DType::i64, {q[0], s.keys}});
    if (documents && !(causal && s.queries == s.keys))
      throw_misfit("documents in a row want causal attention of the row to itself");
    if (documents) require_type("the positions", in[positions()], {DType::i64, {q[0], s.queries}});
    if (p > 0) require_type("the step's state", in[state()], step_state_type());
    return {{in[0].dtype, {q[0], s.queries, s.columns()}}, {DType::f32, {q[0], heads, s.queries}}};
  }

  /// Of two products; with `causal` of the half that is computed. As if a row were one document.
  double flops(TypeSpan in, TypeSpan) const {
    const AttentionSize s = size(in);
    const double pairs = static_cast<double>(s.queries) * static_cast<double>(s.keys) * (causal ? 0.5 : 1);
    return 4 * pairs * static_cast<double>(s.samples * s.columns());
  }

  constexpr Dropout dropout() const { return {.p = p, .stream = stream}; }
};

/// The gradients of the one to three tensors, each packed as its tensor. The probabilities are computed
/// again, tile by tile.
struct AttentionBackward {
  static constexpr std::string_view name = "attention_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { dy, y, logsumexp, q };  ///< from q on the inputs of forward
  using Simd = void(const AttentionBackward&, const AttentionHead&, const AttentionGradients&,
                    float* scratch);

  Attention forward{};

  template <class Visit>
  void fields(Visit&& visit) const {
    forward.fields(visit);
  }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, q + forward.inputs(), q + forward.inputs());
    const TypeSpan inputs = in.subspan(q);
    require_forward(forward, inputs, Types{in[y], in[logsumexp]});
    require_type("dy", in[dy], in[y]);
    if (out.size() != forward.parts()) throw_misfit("a gradient of each tensor is wanted");
    for (std::size_t i = 0; i < out.size(); ++i) require_type("a gradient", out[i], inputs[i]);
  }

  /// Of five products.
  double flops(TypeSpan in, TypeSpan out) const { return 2.5 * forward.flops(in.subspan(q), out); }
};

/// A head of one sample, on the CPU. Pointers are to its first column, of `dtype`; strides are in elements.
struct AttentionHead {
  DType dtype;
  std::int64_t queries, keys, dim;
  std::int64_t first_query, end_query;  ///< that forward computes; backward takes all
  std::int64_t q_row, k_row, v_row;     ///< from row to row, of the gradients too
  std::int64_t y_row;                   ///< of y and dy
  const void *q, *k, *v;
  const std::int64_t* tokens;     ///< of the keys, or null
  const std::int64_t* positions;  ///< of all queries in their documents, or null
  Philox random;                  ///< where p > 0
};

/// What backward has beside it.
struct AttentionGradients {
  const void *y, *dy;
  const float* logsumexp;
  void *dq, *dk, *dv;
};

/// How the CPU cuts a head: the tile of probabilities, and how rows of its operands are padded with zeros.
struct AttentionTile {
  static constexpr std::int64_t queries = 48;
  static constexpr std::int64_t keys = 128;
  static constexpr std::int64_t row = keys + 16;  ///< from row to row: not a power of two

  static constexpr std::int64_t padded(std::int64_t columns) { return (columns + 15) / 16 * 16; }
  static constexpr std::int64_t rounded(std::int64_t n, std::int64_t tile) {
    return (n + tile - 1) / tile * tile;
  }

  /// Floats of scratch memory that a call needs.
  static constexpr std::int64_t forward_scratch(const AttentionSize& s) {
    const std::int64_t dim = padded(s.dim);
    return (2 * rounded(s.keys, keys) + 2 * queries) * dim + queries * row;
  }
  static constexpr std::int64_t backward_scratch(const AttentionSize& s) {
    const std::int64_t dim = padded(s.dim);
    const std::int64_t all_queries = rounded(s.queries, queries);
    return 5 * all_queries * dim + all_queries + 5 * keys * dim + 2 * queries * row;
  }
};

}  // namespace lockstep::kernels
