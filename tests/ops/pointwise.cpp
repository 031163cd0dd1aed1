#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

/// y = value(x) of each number.
void conform_pointwise(const std::string& name, Tensor (*layer)(Tensor), double (*value)(double)) {
  conform({.name = name,
           .layer = [=](const std::vector<Tensor>& in) { return layer(in[0]); },
           .reference =
               [=](const std::vector<Values>& in) {
                 Values y = in[0];
                 std::ranges::transform(y.data, y.data.begin(), value);
                 return y;
               },
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

}  // namespace

// The goldens, of numbers up to 8, also have the flat parts.
TEST_CASE("tanh") {
  conform_pointwise("tanh", model::tanh, [](double x) { return std::tanh(x); });
}

TEST_CASE("sigmoid") {
  conform_pointwise("sigmoid", model::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST_CASE("silu") {
  conform_pointwise("silu", model::silu, [](double x) { return x / (1 + std::exp(-x)); });
}

TEST_CASE("hardsigmoid") {
  conform_pointwise("hardsigmoid", model::hardsigmoid,
                    [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; });
}

TEST_CASE("hardswish") {
  conform_pointwise("hardswish", model::hardswish,
                    [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; });
}

TEST_CASE("gelu") {
  conform_pointwise("gelu", model::gelu,
                    [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; });
}

TEST_CASE("gelu_tanh") {
  conform_pointwise("gelu_tanh", model::gelu_tanh, [](double x) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  });
}

}  // namespace lockstep::ops
