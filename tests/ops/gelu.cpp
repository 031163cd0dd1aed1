#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

template <class Function>
Values each(const std::vector<Values>& in, Function function) {
  Values y = in[0];
  std::ranges::transform(y.data, y.data.begin(), function);
  return y;
}

Values gelu_of(const std::vector<Values>& in) {
  return each(in, [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; });
}

Values gelu_tanh_of(const std::vector<Values>& in) {
  return each(in, [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  });
}

}  // namespace

// The goldens, of numbers up to 8, also have the flat parts.
TEST_CASE("gelu") {
  conform({.name = "gelu",
           .layer = [](const std::vector<Tensor>& in) { return gelu(in[0]); },
           .reference = gelu_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("gelu_tanh") {
  conform({.name = "gelu_tanh",
           .layer = [](const std::vector<Tensor>& in) { return gelu_tanh(in[0]); },
           .reference = gelu_tanh_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

}  // namespace lockstep::ops
