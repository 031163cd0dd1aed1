#include "kernels/cpu/few_rows_product.h"

#include <omp.h>

#include <array>

#include "kernels/base/half.h"
#include "kernels/cpu/simd/simd.h"
#include "tests/support/skip.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// Of a product: its factors as they lie, c before it, and what it adds to c.
struct Problem {
  FewRowsProduct product;
  Values a, b;
  std::vector<float> c;
};

Problem problem(const FewRowsProduct& product) {
  return {product, random_values({product.rows, product.depth}, 1),
          random_values({product.depth, product.columns}, 2),
          std::vector<float>(static_cast<std::size_t>(product.rows * product.columns), 0.25F)};
}

std::vector<std::byte> in_memory(const Values& values, DType dtype) {
  std::vector<std::byte> bytes(values.data.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const auto number = static_cast<float>(values.data[i]);
    if (dtype == DType::f32) {
      reinterpret_cast<float*>(bytes.data())[i] = number;
    } else {
      narrow(number, reinterpret_cast<BFloat16*>(bytes.data())[i]);
    }
  }
  return bytes;
}

std::vector<float> computed(const Problem& of, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const auto a = in_memory(of.a, of.product.factors);
  const auto b = in_memory(of.b, of.product.factors);
  std::vector<float> c = of.c;
  std::vector<float> workspace(of.product.workspace_bytes() / sizeof(float));
  of.product.run(a.data(), b.data(), c.data(), workspace.data());
  omp_set_num_threads(before);
  return c;
}

double wanted(const Problem& of, std::int64_t row, std::int64_t column) {
  const auto at = static_cast<std::size_t>(row * of.product.columns + column);
  double sum = of.product.accumulates ? static_cast<double>(of.c[at]) : 0;
  for (std::int64_t k = 0; k < of.product.depth; ++k) {
    sum += of.a.data[static_cast<std::size_t>(row * of.product.depth + k)] *
           of.b.data[static_cast<std::size_t>(k * of.product.columns + column)];
  }
  return sum;
}

}  // namespace

TEST_CASE("products of few rows, by panels, for any number of threads") {
  const DType factors = GENERATE(DType::f32, DType::bf16);
  const bool accumulates = GENERATE(false, true);
  if (factors == DType::bf16 && simd::instruction_sets().back() != "avx512_bf16") {
    return tests::skip("this CPU multiplies no bf16");
  }
  for (const auto [rows, depth, columns] :
       {std::array{4, 2, 64}, std::array{32, 480, 512}, std::array{29, 130, 192}, std::array{64, 772, 128}}) {
    const Problem of = problem({rows, depth, columns, accumulates, factors});
    const std::vector<float> c = computed(of, 1);
    // Sums of up to 772 products of multiples of 1/64 up to 1: exact in f32 in any order.
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column)
        REQUIRE(static_cast<double>(c[static_cast<std::size_t>(row * columns + column)]) ==
                wanted(of, row, column));
    }
    for (const int threads : {2, 3, 7}) CHECK(computed(of, threads) == c);
  }
}

TEST_CASE("products that panels do not take are the library's") {
  const auto takes = [](const FewRowsProduct& product) {
    return product.is_faster(MatmulPrecision::highest);
  };
  CHECK_FALSE(takes({65, 128, 64, false, DType::f32}));
  CHECK_FALSE(takes({3, 128, 64, false, DType::f32}));
  CHECK_FALSE(takes({32, 128, 72, false, DType::f32}));
  CHECK_FALSE(takes({32, 127, 64, false, DType::bf16}));
}
