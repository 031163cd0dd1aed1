#include "kernels/linear.h"

#include <cmath>
#include <limits>

#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Case {
  Shape x, w;
};

/// From a few products (own loops) to a few thousand (the library), flat and as pictures.
const std::vector<Case> cases = {
    {{1, 1}, {1, 1}},
    {{32, 10}, {1, 10}},
    {{7, 17}, {5, 17}},
    {{2, 300}, {33, 300}},
    {{7, 128}, {10, 128}},
    {{2, 3, 5, 5}, {17, 3, 5, 5}},
    {{7, 17, 3, 3}, {10, 17, 3, 3}},
    {{2, 32, 3, 3}, {16, 32, 3, 3}},
};

/// Rounding of sums of `terms` products of numbers up to 1.
double tolerance(std::int64_t terms) {
  return 1e-6 * static_cast<double>(terms) + 1e-6;
}

}  // namespace

TEST_CASE("linear forward and its gradients") {
  const auto layouts = GENERATE(Layouts::row_major, Layouts::chosen, Layouts::row_major_inputs);
  for (const Case& c : cases) {
    const Values x = random_values(c.x, 1);
    const Values w = random_values(c.w, 2);
    const Values b = random_values({c.w[0]}, 3);
    const Function f = [](const std::vector<Values>& in) { return linear(in[0], in[1], &in[2]); };
    const Values y = f({x, w, b});
    const Values dy = random_values(y.shape, 4);
    const double bound = tolerance(c.w.elements(1));
    require_close(run(Linear{}, {x, w, b}, {y.shape}, layouts)[0], y, bound);
    require_close(run(Linear{Activation::relu}, {x, w, b}, {y.shape}, layouts)[0], relu(y), bound);
    require_close(run(Linear{}, {x, w}, {y.shape}, layouts)[0], linear(x, w, nullptr), bound);
    require_gradient(run(LinearBackwardData{}, {dy, w}, {c.x}, layouts)[0], f, {x, w, b}, 0, dy,
                     tolerance(c.w[0]));
    const auto gradients = run(LinearBackwardWeights{}, {x, dy}, {c.w, {c.w[0]}}, layouts);
    require_gradient(gradients[0], f, {x, w, b}, 1, dy, tolerance(c.x[0]));
    require_gradient(gradients[1], f, {x, w, b}, 2, dy, tolerance(c.x[0]));
    const auto without = run(LinearBackwardWeights{}, {x, dy}, {c.w}, layouts);
    require_close(without[0], gradients[0], tolerance(c.x[0]));
  }
}

TEST_CASE("linear: the bias's gradient of many rows, by several columns at once or one") {
  const std::int64_t rows = GENERATE(1, 129, 1501, 4001);
  const std::int64_t columns = GENERATE(1, 23, 24, 300);
  const Values x = random_values({rows, 1}, 1);
  const Values dy = random_values({rows, columns}, 2);
  const auto db = run(LinearBackwardWeights{}, {x, dy}, {{columns, 1}, {columns}}, Layouts::row_major)[1];
  for (std::int64_t column = 0; column < columns; ++column) {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      sum += dy.data[static_cast<std::size_t>(row * columns + column)];
    REQUIRE(db.data[static_cast<std::size_t>(column)] == Approx(sum).margin(1e-5 * std::sqrt(rows)));
  }
}

TEST_CASE("linear of one vector is that of a matrix with one row, whatever its size") {
  const auto layouts = GENERATE(Layouts::row_major, Layouts::chosen);
  for (const std::int64_t inputs : {32, 128}) {  // own loops, the library
    const Values x = random_values({inputs}, 1);
    const Values w = random_values({64, inputs}, 2);
    const Values b = random_values({64}, 3);
    const Values dy = random_values({64}, 4);
    const double bound = tolerance(inputs);
    const Values y = linear({{1, inputs}, x.data}, w, &b);
    require_close(run(Linear{}, {x, w, b}, {{64}}, layouts)[0], {{64}, y.data}, bound);
    const Values matrix{{1, 64}, dy.data};
    const auto dx = run(LinearBackwardData{}, {matrix, w}, {{1, inputs}}, layouts)[0];
    require_close(run(LinearBackwardData{}, {dy, w}, {{inputs}}, layouts)[0], {{inputs}, dx.data}, bound);
    const auto dw = run(LinearBackwardWeights{}, {x, dy}, {w.shape, {64}}, layouts);
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      const auto columns = static_cast<std::size_t>(inputs);
      REQUIRE(dw[0].data[i] == x.data[i % columns] * dy.data[i / columns]);  // multiples of 2^-12: exact
    }
    CHECK(dw[1].data == dy.data);
  }
}

TEST_CASE("on a GPU a NaN comes through the relu that a linear map ends in", "[relu]") {
  if (device().is_cpu()) return;  // oneDNN's relu makes 0 of it
  for (const Case& c : cases) {
    Values x = random_values(c.x, 1);
    const Values w = random_values(c.w, 2);
    x.data.back() = std::numeric_limits<double>::quiet_NaN();
    const Shape y{c.x[0], c.w[0]};
    for (const bool bias : {false, true}) {
      const std::vector<Values> inputs =
          bias ? std::vector{x, w, random_values({c.w[0]}, 3)} : std::vector{x, w};
      const Values got = run(Linear{Activation::relu}, inputs, {y}, Layouts::chosen)[0];
      for (std::size_t i = 0; i < got.data.size(); ++i) {
        const bool last_row = i >= got.data.size() - static_cast<std::size_t>(c.w[0]);
        CAPTURE(c.x.str(), c.w.str(), bias, i);
        REQUIRE(std::isnan(got.data[i]) == last_row);
      }
    }
  }
}
