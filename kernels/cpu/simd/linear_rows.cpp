#include "kernels/linear_rows.h"

#include "kernels/cpu/simd/lanes.h"

// Compiled with contraction: these are sums, and a fused multiply-add is half of two operations.
namespace lockstep::kernels::simd::LOCKSTEP_ISA {
namespace {

using L = Lanes<native_width>;
using Floats = L::Floats;

constexpr int outputs_at_once = 4;
constexpr int rows_at_once = native_width == 16 ? 4 : 2;  ///< whose sums stay in registers

struct Place {
  const float* x;
  const float* w;
  const float* b;
  float* y;
};

/// The first `count` of a vector, and zeros behind them.
[[gnu::always_inline]] inline Floats load_some(const float* from, std::int64_t count) {
  float some[native_width] = {};
  for (std::int64_t i = 0; i < count; ++i) some[i] = from[i];
  return L::load(some);
}

/// Each sum has a lane for every native_width-th product, and the lanes are added in their order: the same
/// for a block of any size.
template <int rows, int outputs>
[[gnu::always_inline]] inline void block(const LinearRows& op, const MatmulSize& size, const Place& at) {
  Floats sums[rows][outputs] = {};
  const auto add = [&](auto load) {
    Floats features[rows];
    for (int row = 0; row < rows; ++row) features[row] = load(at.x + row * size.inputs);
    for (int out = 0; out < outputs; ++out) {
      const Floats weights = load(at.w + out * size.inputs);
      for (int row = 0; row < rows; ++row) sums[row][out] += features[row] * weights;
    }
  };
  std::int64_t i = 0;
  for (; i + native_width <= size.inputs; i += native_width) {
    add([i](const float* from) { return L::load(from + i); });
  }
  const std::int64_t rest = size.inputs - i;
  if (rest > 0) add([i, rest](const float* from) { return load_some(from + i, rest); });
  const bool relu = op.activation == Activation::relu;
  for (int row = 0; row < rows; ++row) {
    for (int out = 0; out < outputs; ++out) {
      const float sum = L::sum(sums[row][out]) + (at.b == nullptr ? 0.0F : at.b[out]);
      at.y[row * size.outputs + out] = relu && sum < 0 ? 0.0F : sum;
    }
  }
}

template <int outputs>
[[gnu::always_inline]] inline void all_rows(const LinearRows& op, const MatmulSize& size, Place at) {
  std::int64_t row = 0;
  const auto next = [&](int rows) {
    row += rows;
    at.x += rows * size.inputs;
    at.y += rows * size.outputs;
  };
  for (; row + rows_at_once <= size.rows; next(rows_at_once)) block<rows_at_once, outputs>(op, size, at);
  for (; row < size.rows; next(1)) block<1, outputs>(op, size, at);
}

}  // namespace

void run(const LinearRows& op, const LinearRowsPart& part, const float* x, const float* w, const float* b,
         float* y) {
  const MatmulSize& size = part.size;
  std::int64_t out = part.begin;
  const auto here = [&] {
    return Place{x, w + out * size.inputs, b == nullptr ? nullptr : b + out, y + out};
  };
  for (; out + outputs_at_once <= part.end; out += outputs_at_once) {
    all_rows<outputs_at_once>(op, size, here());
  }
  for (; out < part.end; ++out) all_rows<1>(op, size, here());
}

}  // namespace lockstep::kernels::simd::LOCKSTEP_ISA
