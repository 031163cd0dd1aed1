#include <algorithm>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

template <class Function>
Values each(const std::vector<Values>& in, Function function) {
  Values y = in[0];
  std::ranges::transform(y.data, y.data.begin(), function);
  return y;
}

Values hardsigmoid_of(const std::vector<Values>& in) {
  return each(in, [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; });
}

Values hardswish_of(const std::vector<Values>& in) {
  return each(in, [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; });
}

}  // namespace

// The goldens, of numbers up to 8, also have the flat parts.
TEST_CASE("hardsigmoid") {
  conform({.name = "hardsigmoid",
           .layer = [](const std::vector<Tensor>& in) { return hardsigmoid(in[0]); },
           .reference = hardsigmoid_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("hardswish") {
  conform({.name = "hardswish",
           .layer = [](const std::vector<Tensor>& in) { return hardswish(in[0]); },
           .reference = hardswish_of,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

}  // namespace lockstep::ops
