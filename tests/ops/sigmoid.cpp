#include <algorithm>
#include <cmath>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

template <class Function>
Values each(const std::vector<Values>& in, Function function) {
  Values y = in[0];
  std::ranges::transform(y.data, y.data.begin(), function);
  return y;
}

Values sigmoid_of(const std::vector<Values>& in) {
  return each(in, [](double x) { return 1 / (1 + std::exp(-x)); });
}

Values silu_of(const std::vector<Values>& in) {
  return each(in, [](double x) { return x / (1 + std::exp(-x)); });
}

}  // namespace

TEST_CASE("sigmoid") {
  conform({.name = "sigmoid",
           .layer = [](const std::vector<Tensor>& in) { return sigmoid(in[0]); },
           .reference = sigmoid_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("silu") {
  conform({.name = "silu",
           .layer = [](const std::vector<Tensor>& in) { return silu(in[0]); },
           .reference = silu_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

}  // namespace lockstep::ops
