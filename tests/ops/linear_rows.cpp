#include "kernels/linear_rows.h"

#include <omp.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {
namespace {

using namespace kernels;
using namespace kernels::test;

struct Case {
  std::int64_t rows, inputs, outputs;
  bool bias = true;
  Activation activation = Activation::none;
};

std::vector<Values> operands_of(const Case& test) {
  std::vector<Values> in{random_values({test.rows, test.inputs}, 1),
                         random_values({test.outputs, test.inputs}, 2)};
  if (test.bias) in.push_back(random_values({test.outputs}, 3));
  return in;
}

Values product(const Case& test, const std::vector<Values>& in) {
  return run(LinearRows{.activation = test.activation}, in, {{in[0].shape[0], test.outputs}},
             Layouts::row_major)
      .front();
}

Values reference(const Case& test, const std::vector<Values>& in) {
  Values y{{test.rows, test.outputs}, {}};
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t row = 0; row < test.rows; ++row) {
    for (std::int64_t out = 0; out < test.outputs; ++out) {
      double sum = test.bias ? in[2].data[at(out)] : 0;
      for (std::int64_t i = 0; i < test.inputs; ++i) {
        sum += in[0].data[at(row * test.inputs + i)] * in[1].data[at(out * test.inputs + i)];
      }
      y.data.push_back(test.activation == Activation::relu ? std::max(sum, 0.0) : sum);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("linear_rows: as its definition, at odd sizes") {
  const std::vector<Case> cases{{1, 1, 1},         {1, 33, 7},
                                {3, 16, 5, false}, {5, 47, 18, true, Activation::relu},
                                {9, 130, 67},      {64, 96, 33, false, Activation::relu},
                                {2, 768, 301}};
  for (const Case& test : cases) {
    const std::vector<Values> in = operands_of(test);
    CAPTURE(test.rows, test.inputs, test.outputs);
    require_close(product(test, in), reference(test, in), 2e-5);
  }
}

TEST_CASE("linear_rows: a row has the same bits beside any others, and from any team") {
  if (!device().is_cpu()) return;
  const Case test{11, 250, 1037};
  const std::vector<Values> in = operands_of(test);
  const Values all = product(test, in);
  const int before = omp_get_max_threads();
  for (const int threads : {1, 3}) {
    omp_set_num_threads(threads);
    for (std::int64_t row = 0; row < test.rows; ++row) {
      const auto first = in[0].data.begin() + row * test.inputs;
      std::vector<Values> alone = in;
      alone[0] = {{1, test.inputs}, {first, first + test.inputs}};
      const auto wanted = all.data.begin() + row * test.outputs;
      CHECK(std::ranges::equal(product(test, alone).data, std::span(wanted, wanted + test.outputs)));
    }
  }
  omp_set_num_threads(before);
}

TEST_CASE("linear_rows: what is no matrix of f32 is refused") {
  const TensorType x{DType::f32, {2, 3, 8}};
  CHECK(LinearRows{}.infer(Types{x, {DType::f32, {5, 8}}}) == Types{{DType::f32, {2, 3, 5}}});
  CHECK_THROWS_AS(LinearRows{}.infer(Types{{DType::bf16, {2, 8}}, {DType::bf16, {5, 8}}}), UsageError);
  CHECK_THROWS_AS(LinearRows{}.infer(Types{{DType::f32, {2, 3, 8, 8}}, {DType::f32, {5, 3, 8, 8}}}),
                  UsageError);
}

}  // namespace lockstep::ops
