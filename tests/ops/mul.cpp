#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

/// (2, 3, 5, 7) by one number for each channel.
Values by_channel(const std::vector<Values>& in) {
  Values y = in[0];
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] *= in[1].data[i / 35 % 3];
  return y;
}

/// (2, 3, 5, 7) by one number for each channel of each picture.
Values by_picture(const std::vector<Values>& in) {
  Values y = in[0];
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] *= in[1].data[i / 35];
  return y;
}

Values by_element(const std::vector<Values>& in) {
  Values y = in[0];
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] *= in[1].data[i];
  return y;
}

Tensor multiply(const std::vector<Tensor>& in) {
  return mul(in[0], in[1]);
}

}  // namespace

TEST_CASE("mul") {
  conform({.name = "mul",
           .layer = multiply,
           .reference = by_element,
           .operands = {"a", "b"},
           .shapes = {{{1}, {1}}, {{3, 17}, {3, 17}}, {{2, 5, 3, 7}, {2, 5, 3, 7}}},
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

// Squeeze and excitation: each picture's channels by a number of their own.
TEST_CASE("mul, broadcast over pixels") {
  conform({.name = "mul_pixels",
           .layer = multiply,
           .reference = by_picture,
           .operands = {"a", "b"},
           .shapes = {{{2, 3, 5, 7}, {2, 3, 1, 1}}},
           .tolerance = 1e-5,  // sums of 35 products up to 1 in f32
           .dtypes = {DType::f32, DType::bf16, DType::f16}});
}

TEST_CASE("mul, broadcast over channels") {
  conform({.name = "mul_channels",
           .layer = multiply,
           .reference = by_channel,
           .operands = {"a", "b"},
           .shapes = {{{2, 3, 5, 7}, {3, 1, 1}}},
           .tolerance = 1e-5});  // sums of 70 products up to 1 in f32
}

}  // namespace lockstep::ops
