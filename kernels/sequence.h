#pragma once

#include "kernels/op.h"

/// Rows of tokens that have not all the same number of steps.
namespace lockstep::kernels {

/// How many tokens each row of (N, T) has before its padding, which is -1 and comes last.
struct SequenceLengths {
  static constexpr std::string_view name = "sequence_lengths";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { tokens };
  enum Out : std::size_t { lengths };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const {
    require_count(in, 1, 1);
    require_dtype("tokens", in[tokens], DType::i64);
    require_rank("tokens", in[tokens], 2);
    return {{DType::i64, {in[tokens].shape[0]}}};
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// y (N, ...) = the last step of each row of x (T, N, ...); with `lengths` the last one that the row has, and
/// zeros for a row without any.
struct LastStep {
  static constexpr std::string_view name = "last_step";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { x, lengths };
  enum Out : std::size_t { y };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const {
    require_count(in, 1, 2);
    require_floats("x", in[x]);
    const Shape& shape = in[x].shape;
    if (shape.rank() < 2 || shape[0] < 1) throw_misfit("input " + shape.str() + " has no steps");
    if (in.size() > lengths) require_type("lengths", in[lengths], {DType::i64, {shape[1]}});
    return {{in[x].dtype, Shape(std::vector<std::int64_t>(shape.begin() + 1, shape.end()))}};
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// dy in its place, and zeros.
struct LastStepBackward {
  static constexpr std::string_view name = "last_step_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { dy, lengths };
  enum Out : std::size_t { dx };

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 2);
    require_count(out, 1, 1);
    Types forward{out[dx]};
    if (in.size() > lengths) forward.push_back(in[lengths]);
    require_forward(LastStep{}, forward, Types{in[dy]});
  }
  double flops(TypeSpan, TypeSpan) const { return 0; }
};

}  // namespace lockstep::kernels
