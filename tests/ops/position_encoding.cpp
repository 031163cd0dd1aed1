#include "kernels/position_encoding.h"

#include <cmath>

#include "tests/ops/conformance.h"

namespace lockstep::ops {
namespace {

Values reference(const std::vector<Values>& in) {
  Values y = in[0];
  const std::int64_t columns = y.shape[y.shape.rank() - 1];
  const std::int64_t positions = y.shape[y.shape.rank() - 2];
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % columns;
    const auto position = static_cast<std::int64_t>(i) / columns % positions;
    const double wave =
        std::pow(10000.0, static_cast<double>(column - column % 2) / static_cast<double>(columns));
    const double angle = static_cast<double>(position) / wave;
    y.data[i] += column % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }
  return y;
}

}  // namespace

TEST_CASE("position_encoding") {
  conform({.name = "position_encoding",
           .layer = [](const std::vector<Tensor>& in) { return position_encoding(in[0]); },
           .reference = reference,
           .operands = {"x"},
           .shapes = {{{1, 1}}, {{5, 7}}, {{3, 65, 10}}, {{2, 3, 4, 3}}, {{2, 4097, 8}}},
           .tolerance = 1e-6});
}

}  // namespace lockstep::ops
