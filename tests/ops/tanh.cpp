#include <cmath>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

Values reference(const std::vector<Values>& in) {
  Values y = in[0];
  for (double& value : y.data) value = std::tanh(value);
  return y;
}

}  // namespace

TEST_CASE("tanh") {
  conform({.name = "tanh",
           .layer = [](const std::vector<Tensor>& in) { return tanh(in[0]); },
           .reference = reference,
           .operands = {"x"},
           .shapes = {{{1}}, {{3, 17}}, {{2, 5, 3, 7}}},
           .tolerance = 1e-6,
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

}  // namespace lockstep::ops
