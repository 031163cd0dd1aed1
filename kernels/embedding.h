#pragma once

#include <cstdint>

#include "kernels/op.h"

namespace lockstep::kernels {

/// What a token that is no row of the table means.
inline constexpr std::int64_t padding_token = -1;

/// y[n] = weight[tokens[n]], for tokens (...) i64 and weight (vocab, dim) f32. Padding gives zeros, any other
/// token outside [0, vocab) numbers that are not numbers, as such a target does in the loss.
struct Embedding {
  static constexpr std::string_view name = "embedding";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { tokens, weight };
  enum Out : std::size_t { y };

  template <class Visit>
  void fields(Visit&&) const {}

  Types infer(TypeSpan in) const {
    require_count(in, 2, 2);
    require_dtype("the tokens", in[tokens], DType::i64);
    require_dtype("the weight", in[weight], DType::f32);
    require_rank("the weight", in[weight], 2);
    std::vector<std::int64_t> extents(in[tokens].shape.begin(), in[tokens].shape.end());
    extents.push_back(in[weight].shape[1]);
    return {{DType::f32, Shape(std::move(extents))}};
  }

  double flops(TypeSpan, TypeSpan) const { return 0; }
};

/// Rows of dy of equal tokens, added in their order in the batch, and their sum to that row of `sum`: what
/// else the weight's gradient is made of, zeros if left out. One thread adds all that go into a number, so
/// its bits depend on no team.
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding_backward";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { dy, tokens, sum };
  enum Out : std::size_t { dweight };
  static constexpr std::size_t overwrites = sum;

  template <class Visit>
  void fields(Visit&&) const {}

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 2, 3);
    require_forward(Embedding{}, Types{in[tokens], out[dweight]}, Types{in[dy]});
    if (in.size() > sum) require_type("the sum", in[sum], out[dweight]);
  }

  double flops(TypeSpan in, TypeSpan) const { return static_cast<double>(in[dy].shape.elements()); }
};

/// Tokens and the table that they index.
struct EmbeddingSize {
  std::int64_t tokens, vocab, dim;

  EmbeddingSize(const TensorDesc& tokens_of, const TensorDesc& weight)
      : tokens(tokens_of.shape.elements()), vocab(weight.shape[0]), dim(weight.shape[1]) {}
};

}  // namespace lockstep::kernels
