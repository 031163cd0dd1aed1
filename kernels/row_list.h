#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/alignment.h"
#include "kernels/op.h"

namespace lockstep::kernels {

/// A matrix of which few rows are not zero, as one piece of memory that ranks exchange: a header, the numbers
/// of its rows (i32, ascending, each once), and the rows, in that order.
struct RowListHeader {
  std::int64_t bytes;  ///< of the list from its begin on that are in use
  std::int64_t rows;
};

struct RowListShape {
  std::int64_t dim = 0;
  std::int64_t capacity = 0;  ///< rows at most
  DType dtype = DType::f32;

  std::size_t row_bytes() const { return static_cast<std::size_t>(dim) * size_of(dtype); }
  static constexpr std::size_t numbers_at() { return whole_lines(sizeof(RowListHeader)); }
  std::size_t values_at() const {
    return numbers_at() + whole_lines(static_cast<std::size_t>(capacity) * sizeof(std::int32_t));
  }
  std::size_t bytes_with(std::int64_t rows) const {
    return values_at() + static_cast<std::size_t>(rows) * row_bytes();
  }
  std::size_t bytes() const { return whole_lines(bytes_with(capacity)); }
};

/// The gradient of an embedding's weight (vocab, dim) as a list of rows: of pairs of dy (..., dim) and tokens
/// (...), the inputs, the rows of equal tokens added in their order, as EmbeddingBackward adds them.
struct EmbeddingRows {
  static constexpr std::string_view name = "embedding_rows";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum Out : std::size_t { list };

  static constexpr std::size_t most_pairs = 4;

  std::int64_t vocab = 0;
  std::int64_t capacity = 0;
  DType dtype = DType::f32;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("vocab", vocab);
    visit("capacity", capacity);
    visit("dtype", name_of(dtype));
  }

  static constexpr std::size_t dy_of(std::size_t pair) { return 2 * pair; }
  static constexpr std::size_t tokens_of(std::size_t pair) { return 2 * pair + 1; }

  static std::int64_t dim_of(const TensorType& dy) {
    return dy.shape.rank() == 0 ? 0 : dy.shape[dy.shape.rank() - 1];
  }
  RowListShape shape(const TensorType& dy) const { return {dim_of(dy), capacity, dtype}; }

  Types infer(TypeSpan in) const {
    if (in.empty() || in.size() % 2 != 0 || in.size() > 2 * most_pairs) {
      throw_misfit("one to four pairs of dy and tokens wanted");
    }
    std::int64_t tokens = 0;
    for (std::size_t pair = 0; 2 * pair < in.size(); ++pair) {
      const TensorType& of_pair = in[tokens_of(pair)];
      std::vector<std::int64_t> extents(of_pair.shape.begin(), of_pair.shape.end());
      extents.push_back(dim_of(in[0]));
      require_dtype("the tokens", of_pair, DType::i64);
      require_type("dy", in[dy_of(pair)], {DType::f32, Shape(std::move(extents))});
      tokens += of_pair.shape.elements();
    }
    if (capacity < std::min(tokens, vocab)) throw_misfit("more tokens than the list has room for");
    return {{DType::u8, {static_cast<std::int64_t>(shape(in[0]).bytes())}}};
  }

  double flops(TypeSpan in, TypeSpan) const {
    double sum = 0;
    for (std::size_t pair = 0; 2 * pair < in.size(); ++pair)
      sum += static_cast<double>(in[dy_of(pair)].shape.elements());
    return sum;
  }
};

/// Adds to a matrix the rows of the lists, one of each rank: the rows of one number are summed in f32, in the
/// binary tree over the ranks in which comm/reduce takes all sums, then added to what the matrix holds, or
/// with `overwrites` to zeros, and rounded once. So every rank computes the same bits.
struct AddRows {
  static constexpr std::string_view name = "add_rows";
  static constexpr LayoutRule layouts = LayoutRule::row_major;
  enum In : std::size_t { lists };
  enum Out : std::size_t { sum };

  std::int64_t capacity = 0;
  bool overwrites = false;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("capacity", capacity);
    visit("overwrites", overwrites);
  }

  RowListShape shape(const TensorType& of_sum) const { return {of_sum.shape[1], capacity, of_sum.dtype}; }

  void check(TypeSpan in, TypeSpan out) const {
    require_count(in, 1, 1);
    require_count(out, 1, 1);
    require_floats("the sum", out[sum]);
    require_rank("the sum", out[sum], 2);
    require_rank("the lists", in[lists], 2);
    const Shape wanted{in[lists].shape[0], static_cast<std::int64_t>(shape(out[sum]).bytes())};
    require_type("the lists", in[lists], {DType::u8, wanted});
  }

  double flops(TypeSpan in, TypeSpan out) const {
    return static_cast<double>(in[lists].shape[0] * capacity * out[sum].shape[1]);
  }
};

/// How often the last two partial sums merge once the operand of rank `rank` of `ranks` is there, so that all
/// are added in the tree whose left subtrees hold the greatest powers of two: after the last until one is
/// left of `depth`.
constexpr int merges_after(int rank, int ranks, int depth) {
  if (rank + 1 == ranks) return depth - 1;
  int merges = 0;
  for (int bits = rank; (bits & 1) != 0; bits >>= 1) ++merges;
  return merges;
}

}  // namespace lockstep::kernels
