#include "kernels/linear_gelu.h"

#include <cmath>

#include "kernels/base/error.h"
#include "tests/unit/kernels/harness.h"

namespace lockstep::ops {
namespace {

using namespace kernels;
using namespace kernels::test;

/// Rows of eights end in the library's epilogue, others in a pass; so do factors that the library lacks.
struct Case {
  std::int64_t rows, inputs, outputs;
  bool bias = true;
};
constexpr Case cases[] = {{1, 4, 8},   {37, 64, 48}, {5, 12, 16, false},
                          {7, 33, 24}, {6, 16, 19},  {67, 96, 136}};

std::vector<DType> dtypes() {
  if (device().is_cpu()) return {DType::f32, DType::bf16};
  return {DType::f32, DType::bf16, DType::f16};
}

double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
}

template <class Op>
std::vector<Values> run_as(const Op& op, DType dtype, const std::vector<Values>& in,
                           const std::vector<Shape>& outputs) {
  KernelIo io = make_io(in, outputs, Layouts::row_major);
  for (auto* side : {&io.inputs, &io.outputs}) {
    for (TensorDesc& desc : *side) desc.dtype = dtype;
  }
  return run_prepared(kernel_for(device(), op, io), io, in);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double slope_of_gelu(double x) {
  const double step = 1e-5;
  return (gelu(x + step) - gelu(x - step)) / (2 * step);
}

Values product(const Values& a, const Values& b, bool transpose_b, const Values* bias) {
  const std::int64_t rows = a.shape[0];
  const std::int64_t inner = a.shape[1];
  const std::int64_t columns = b.shape[transpose_b ? 0 : 1];
  Values c{{rows, columns}, {}};
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = bias != nullptr ? bias->data[at(column)] : 0;
      for (std::int64_t i = 0; i < inner; ++i) {
        sum +=
            a.data[at(row * inner + i)] * b.data[at(transpose_b ? column * inner + i : i * columns + column)];
      }
      c.data.push_back(sum);
    }
  }
  return c;
}

/// What may be rounded on the way to each output.
struct Scales {
  Values pre, y;
};

/// A real GPU rounds the product before the bias comes to it where cuBLASLt splits the sum or there is one
/// row (1x8x4; 13.1 on an H200), and what gelu is taken of may be off by `steepest` times as much in y.
Scales rounded_on_the_way(const Values& pre, const Values& product_alone, bool bias) {
  Scales scales{.pre = pre, .y = pre};
  if (!bias || !is_real_gpu()) return scales;
  constexpr double steepest = 1.13;  // slope of gelu_tanh
  scales.pre = product_alone;
  for (std::size_t i = 0; i < pre.data.size(); ++i)
    scales.y.data[i] = steepest * (std::abs(pre.data[i]) + std::abs(product_alone.data[i]));
  return scales;
}

/// One rounding of `scale` and one of what is wanted, and what sums in f32 err.
void require_rounded(const Values& got, const Values& wanted, const Values& scale, DType dtype) {
  REQUIRE(got.data.size() == wanted.data.size());
  for (std::size_t i = 0; i < wanted.data.size(); ++i) {
    INFO("element " << i << " in " << name_of(dtype));
    const double bound = unit_of(dtype) * (std::abs(wanted.data[i]) + std::abs(scale.data[i])) + 2e-5;
    REQUIRE(std::abs(got.data[i] - wanted.data[i]) <= bound);
  }
}

}  // namespace

TEST_CASE("linear_gelu: the function of a product, and the product, which evaluation leaves out") {
  for (const Case& test : cases) {
    std::vector<Values> in{random_values({test.rows, test.inputs}, 1),
                           random_values({test.outputs, test.inputs}, 2)};
    if (test.bias) in.push_back(random_values({test.outputs}, 3));
    const Values pre = product(in[0], in[1], true, test.bias ? &in[2] : nullptr);
    Values y = pre;
    for (double& value : y.data) value = gelu(value);
    const Scales scales = rounded_on_the_way(pre, product(in[0], in[1], true, nullptr), test.bias);
    for (const DType dtype : dtypes()) {
      CAPTURE(test.rows, test.inputs, test.outputs, test.bias);
      const auto got = run_as(LinearGelu{}, dtype, in, {y.shape, y.shape});
      require_rounded(got[LinearGelu::y], y, scales.y, dtype);
      require_rounded(got[LinearGelu::pre], pre, scales.pre, dtype);
      require_rounded(run_as(LinearGelu{}, dtype, in, {y.shape}).front(), y, scales.y, dtype);
    }
  }
}

TEST_CASE("linear_backward_gelu: the product's gradient times the slope where it was taken") {
  for (const Case& test : cases) {
    const std::vector<Values> in{random_values({test.rows, test.inputs}, 1),
                                 random_values({test.inputs, test.outputs}, 2),
                                 random_values({test.rows, test.outputs}, 3)};
    Values dpre = product(in[0], in[1], false, nullptr);
    for (std::size_t i = 0; i < dpre.data.size(); ++i) dpre.data[i] *= slope_of_gelu(in[2].data[i]);
    for (const DType dtype : dtypes()) {
      CAPTURE(test.rows, test.inputs, test.outputs);
      require_rounded(run_as(LinearBackwardGelu{}, dtype, in, {dpre.shape}).front(), dpre, dpre, dtype);
    }
  }
}

TEST_CASE("linear_gelu: sequences of rows, and what does not fit is refused") {
  const TensorType x{DType::bf16, {2, 3, 8}};
  const TensorType y{DType::bf16, {2, 3, 5}};
  CHECK(LinearGelu{}.infer(Types{x, {DType::bf16, {5, 8}}}) == Types{y, y});
  CHECK_THROWS_AS(LinearGelu{}.infer(Types{{DType::f32, {2, 3, 8, 8}}, {DType::f32, {5, 3, 8, 8}}}),
                  UsageError);
  const TensorType w{DType::bf16, {5, 8}};
  CHECK_NOTHROW(LinearBackwardGelu{}.check(Types{y, w, x}, Types{x}));
  CHECK_THROWS_AS(LinearBackwardGelu{}.check(Types{y, w, y}, Types{x}), UsageError);
}

}  // namespace lockstep::ops
