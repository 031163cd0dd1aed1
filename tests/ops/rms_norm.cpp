#include <cmath>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

/// Of x and weight.
Values normalised(const std::vector<Values>& in, double eps) {
  Values y = in[0];
  const std::size_t columns = in[1].data.size();
  for (std::size_t row = 0; row < y.data.size(); row += columns) {
    double square = 0;
    for (std::size_t k = 0; k < columns; ++k) square += y.data[row + k] * y.data[row + k];
    const double scale = 1 / std::sqrt(square / static_cast<double>(columns) + eps);
    for (std::size_t k = 0; k < columns; ++k) y.data[row + k] *= scale * in[1].data[k];
  }
  return y;
}

}  // namespace

TEST_CASE("rms_norm") {
  conform({.name = "rms_norm",
           .layer = [](const std::vector<Tensor>& in) { return rms_norm(in[0], "norm"); },
           .reference = [](const std::vector<Values>& in) { return normalised(in, 0x1p-23); },
           .operands = {"x", "weight"},
           .shapes = {{{1, 17}}, {{17}}, {{2, 3, 17}}, {{67, 768}}, {{3, 1025}}, {{2, 2048}}},
           .tolerance = 2e-5});
}

TEST_CASE("rms_norm with an epsilon of its own") {
  conform({.name = "rms_norm_eps",
           .layer = [](const std::vector<Tensor>& in) { return rms_norm(in[0], "norm", {.eps = 0.5}); },
           .reference = [](const std::vector<Values>& in) { return normalised(in, 0.5); },
           .operands = {"x", "weight"},
           .shapes = {{{1, 1}}, {{6, 9}}},
           .tolerance = 2e-5});
}

}  // namespace lockstep::ops
