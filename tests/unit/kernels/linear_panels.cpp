#include <omp.h>

#include <bit>
#include <cmath>

#include "kernels/base/half.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/linear.h"
#include "kernels/panel_product.h"
#include "tests/support/skip.h"
#include "tests/unit/kernels/instruction_sets.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// Whole chunks of terms and a rest, an odd number of panels of outputs, two blocks of inputs.
constexpr std::int64_t rows = 1030, inputs = 576, outputs = 192;

Values transposed(const Values& matrix) {
  const std::int64_t m = matrix.shape[0];
  const std::int64_t n = matrix.shape[1];
  Values to{{n, m}, std::vector<double>(matrix.data.size())};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t k = 0; k < n; ++k)
      to.data[static_cast<std::size_t>(k * m + i)] = matrix.data[static_cast<std::size_t>(i * n + k)];
  }
  return to;
}

/// "avx512": both gradients are our products, "avx": those of weights.
bool has(std::string_view instructions) {
  return device().is_cpu() && simd::instruction_sets().back().starts_with(instructions);
}

/// Of the weights: row-major, and with panels column-major, oneDNN's AB16b64a and AB8b64a2b.
std::vector<Layout> layouts_of(const Shape& w) {
  std::vector<Layout> layouts{Layout::row_major(w)};
  if (!has("avx")) return layouts;
  layouts.push_back({.padded = w, .strides = {1, w[0]}, .blocks = {}});
  layouts.push_back({.padded = w, .strides = {w[1] * 64, 16 * 64}, .blocks = {{1, 16}, {0, 64}}});
  layouts.push_back({.padded = w, .strides = {w[1] * 64, 16 * 64}, .blocks = {{1, 8}, {0, 64}, {1, 2}}});
  return layouts;
}

struct Gradients {
  Values dx, dw, db;
};

/// dw and db from bf16 x and dy, in f32; dx is left out.
Gradients bf16_gradients(const Values& x, const Values& dy, const Layout& layout, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const Shape w{dy.shape[1], x.shape[1]};
  KernelIo weights = make_io({x, dy}, {w, {w[0]}}, Layouts::row_major);
  for (TensorDesc& input : weights.inputs) input.dtype = DType::bf16;
  weights.outputs[LinearBackwardWeights::dw].layout = layout;
  const auto dw = run_prepared(kernel_for(device(), LinearBackwardWeights{}, weights), weights, {x, dy});
  omp_set_num_threads(before);
  return {{}, dw[0], dw[1]};
}

/// Numbers that bf16 has exactly, of 8 bits of mantissa and 16 magnitudes: their sums are rounded.
Values bf16_values(const Shape& shape, unsigned seed) {
  Values values = random_values(shape, seed);
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const auto narrow = std::bit_cast<std::uint32_t>(static_cast<float>(values.data[i])) & 0xFFFF0000U;
    values.data[i] = std::ldexp(std::bit_cast<float>(narrow), -static_cast<int>(i * 7 % 16));
  }
  return values;
}

Values magnitudes(Values values) {
  for (double& value : values.data) value = std::fabs(value);
  return values;
}

/// Sums of products against those in double: products of two bf16 are exact in f32, and a sum of `rows`
/// terms, added one by one and in partial sums, is rounded once a term and once a partial sum at most, each
/// time by 2^-24 of a sum that is no larger than that of the magnitudes. Nothing here is near the denormals
/// that VDPBF16PS takes for 0.
void require_sums(const Values& got, const Values& wanted, const Values& of_magnitudes) {
  REQUIRE(got.data.size() == wanted.data.size());
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double bound = (rows + 16) * 0x1p-24 * of_magnitudes.data[i] * (1 + 0x1p-12);
    REQUIRE(std::fabs(got.data[i] - wanted.data[i]) <= bound);
  }
}

Gradients gradients(const Values& x, const Values& w, const Values& dy, const Layout& layout, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  KernelIo data = make_io({dy, w}, {x.shape}, Layouts::row_major);
  data.inputs[LinearBackwardData::w].layout = layout;
  const auto dx = run_prepared(kernel_for(device(), LinearBackwardData{}, data), data, {dy, w});
  KernelIo weights = make_io({x, dy}, {w.shape, {w.shape[0]}}, Layouts::row_major);
  weights.outputs[LinearBackwardWeights::dw].layout = layout;
  const auto dw = run_prepared(kernel_for(device(), LinearBackwardWeights{}, weights), weights, {x, dy});
  omp_set_num_threads(before);
  return {dx[0], dw[0], dw[1]};
}

}  // namespace

TEST_CASE("weight gradients of large linear maps of bf16, an odd number of rows") {
  const Values x = bf16_values({rows + 1, inputs}, 1);
  const Values dy = bf16_values({rows + 1, outputs}, 3);
  const Values ones{{1, rows + 1}, std::vector<double>(static_cast<std::size_t>(rows + 1), 1)};
  const Values dw = linear(transposed(dy), transposed(x), nullptr);
  const Values dw_magnitude = linear(transposed(magnitudes(dy)), transposed(magnitudes(x)), nullptr);
  const Values db = linear(ones, transposed(dy), nullptr);
  const Values db_magnitude = linear(ones, transposed(magnitudes(dy)), nullptr);
  for (const Layout& layout : layouts_of(dw.shape)) {
    const Gradients alone = bf16_gradients(x, dy, layout, 1);
    require_sums(alone.dw, dw, dw_magnitude);
    require_sums(alone.db, db, db_magnitude);
    for (const int threads : {2, 3, 7}) {
      if (!has("avx512")) break;
      const Gradients shared = bf16_gradients(x, dy, layout, threads);
      CHECK(shared.dw.data == alone.dw.data);
      CHECK(shared.db.data == alone.db.data);
    }
  }
}

TEST_CASE("gradients of large linear maps, whatever layout the weights have") {
  const Values x = random_values({rows, inputs}, 1);
  const Values w = random_values({outputs, inputs}, 2);
  const Values dy = random_values({rows, outputs}, 3);
  const Values ones{{1, rows}, std::vector<double>(static_cast<std::size_t>(rows), 1)};
  for (const Layout& layout : layouts_of(w.shape)) {
    const Gradients got = gradients(x, w, dy, layout, 1);
    // Sums of up to 1030 products of multiples of 1/64 up to 1: exact in f32 in any order.
    require_close(got.dx, linear(dy, transposed(w), nullptr), 0);
    require_close(got.dw, linear(transposed(dy), transposed(x), nullptr), 0);
    require_close({{1, outputs}, got.db.data}, linear(ones, transposed(dy), nullptr), 0);
  }
}

TEST_CASE("weight gradients of wide linear maps, whose inputs are packed") {
  const Values x = random_values({150, 1088}, 1);
  const Values dy = random_values({150, 64}, 3);
  for (const Layout& layout : layouts_of({64, 1088})) {
    KernelIo io = make_io({x, dy}, {{64, 1088}}, Layouts::row_major);
    io.outputs[LinearBackwardWeights::dw].layout = layout;
    const auto dw = run_prepared(kernel_for(device(), LinearBackwardWeights{}, io), io, {x, dy});
    require_close(dw[0], linear(transposed(dy), transposed(x), nullptr), 0);  // exact, as above
  }
}

TEST_CASE("gradients of large linear maps have the same bits for any number of threads") {
  if (!device().is_cpu()) return;
  if (!has("avx")) return tests::skip("this CPU has no AVX2");
  Values x = random_values({rows, inputs}, 1);
  const Values w = random_values({outputs, inputs}, 2);
  Values dy = random_values({rows, outputs}, 3);
  for (Values* values : {&x, &dy}) {
    for (double& value : values->data) value = static_cast<float>(value / 3);  // sums are rounded
  }
  for (const Layout& layout : layouts_of(w.shape)) {
    const Gradients alone = gradients(x, w, dy, layout, 1);
    for (const int threads : {2, 3, 7}) {
      const Gradients shared = gradients(x, w, dy, layout, threads);
      if (has("avx512")) CHECK(shared.dx.data == alone.dx.data);
      CHECK(shared.dw.data == alone.dw.data);
      CHECK(shared.db.data == alone.db.data);
    }
  }
}

namespace lockstep::tests {

TEST_CASE("all instruction sets pack panels and transpose to the baseline's bits") {
  const std::int64_t height = GENERATE(1, 16, 37);
  const std::int64_t width = GENERATE(5, 64, 83);
  check_same_bits([=](const Loops& run) {
    const std::vector<float> from = numbers(static_cast<std::size_t>(height * 90), 1);
    std::vector<float> to(static_cast<std::size_t>(width * 40));
    run(Transpose{height, width, 90, 40}, from.data(), to.data());
    for (std::int64_t i = 0; i < height * width; ++i) {
      const std::int64_t row = i / width;
      const std::int64_t column = i % width;
      REQUIRE(to[static_cast<std::size_t>(column * 40 + row)] ==
              from[static_cast<std::size_t>(row * 90 + column)]);
    }
    std::vector<float> panel(static_cast<std::size_t>(height * PanelProduct::columns));
    std::vector<float> sums(PanelProduct::columns, 0.5F);
    run(PanelCopy{height, 90}, from.data(), panel.data(), sums.data());
    append(to, panel);
    append(to, sums);
    return to;
  });
}

TEST_CASE("all instruction sets compute products by panels, of any number of rows") {
  const std::int64_t count = GENERATE(1, 6, 7, 32);
  const std::int64_t units = GENERATE(16, 64);
  const bool accumulates = GENERATE(false, true);
  check_same_sums([=](const Loops& run) {
    constexpr std::int64_t columns = PanelProduct::columns;
    const std::vector<float> a = numbers(static_cast<std::size_t>(count * 40), 1);
    std::vector<float> b = numbers(static_cast<std::size_t>(37 * columns), 2);
    std::vector<float> c = numbers(static_cast<std::size_t>(count * 5 * columns), 3);
    run(PanelProduct{count, 37, 40, 5 * columns, 70, units, accumulates}, a.data(), b.data(), c.data());
    return c;
  });
}

TEST_CASE("all instruction sets multiply f32 that lie transposed, and copy their panel meanwhile") {
  const std::int64_t count = GENERATE(4, 6, 64, 78);
  const std::int64_t height = GENERATE(1, 37, 130);
  const bool accumulates = GENERATE(false, true);
  check_same_sums([=](const Loops& run) {
    constexpr std::int64_t columns = PanelProduct::columns;
    constexpr std::int64_t row = 3 * columns + 5;
    const std::vector<float> from = numbers(static_cast<std::size_t>(height * row), 1);
    std::vector<float> panel(static_cast<std::size_t>(height * columns));
    std::vector<float> sums(columns, 0.5F);
    std::vector<float> c = numbers(static_cast<std::size_t>(count * columns), 3);
    const auto before = c;
    const PanelCopy copy{height, row};
    PanelProduct product{count, height, columns, columns};
    product.a_term = row;
    product.accumulates = accumulates;
    product.copy = &copy;
    product.from = from.data() + 2 * columns;
    product.from_sums = sums.data();
    run(product, from.data(), panel.data(), c.data());
    const auto at = [&](std::int64_t k, std::int64_t column) {
      return double{from[static_cast<std::size_t>(k * row + column)]};
    };
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0.5;
      for (std::int64_t k = 0; k < height; ++k) {
        sum += at(k, 2 * columns + j);
        REQUIRE(panel[static_cast<std::size_t>(k * columns + j)] == at(k, 2 * columns + j));
      }
      REQUIRE(sums[static_cast<std::size_t>(j)] == Approx(sum).epsilon(1e-5).margin(1e-4));
      for (std::int64_t i = 0; i < count; ++i) {
        const auto place = static_cast<std::size_t>(i * columns + j);
        double wanted = accumulates ? before[place] : 0;
        for (std::int64_t k = 0; k < height; ++k) wanted += at(k, i) * at(k, 2 * columns + j);
        REQUIRE(c[place] == Approx(wanted).epsilon(1e-5).margin(1e-3));  // sums of terms of up to 15
      }
    }
    return std::vector<float>{};
  });
}

TEST_CASE("all instruction sets pack pairs of bf16 and multiply them by panels") {
  const std::int64_t count = GENERATE(2, 6, 64, 78);
  const std::int64_t height = GENERATE(1, 36, 37);
  const bool pairs_rows = GENERATE(false, true);
  const bool accumulates = GENERATE(false, true);
  const bool copies = GENERATE(false, true) && count >= 4;
  check_same_sums([=](const Loops& run) {
    constexpr std::int64_t columns = PanelProduct::columns;
    constexpr std::int64_t row = 3 * columns;
    std::vector<std::uint16_t> from;
    for (const float value : numbers(static_cast<std::size_t>(height * row), 1))
      from.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    const std::int64_t words = (height + 1) / 2;
    std::vector<std::uint32_t> panels(static_cast<std::size_t>(words * row));
    std::vector<float> sums(static_cast<std::size_t>(row), 0.5F);
    const PanelCopy copy{height, row, DType::bf16};
    for (std::int64_t column = 0; column < (copies ? 2 * columns : row); column += columns)
      run(copy, from.data() + column, panels.data() + words * column, sums.data() + column);
    std::vector<float> c = numbers(static_cast<std::size_t>(count * columns), 3);
    const auto before = c;
    PanelProduct product{count, words, words * columns, columns};
    product.accumulates = accumulates;
    product.factors = DType::bf16;
    product.a_term = columns;
    product.pairs_rows = pairs_rows;
    if (copies) {
      product.copy = &copy;
      product.from = from.data() + 2 * columns;
      product.from_sums = sums.data() + 2 * columns;
    }
    run(product, panels.data(), panels.data() + 2 * words * columns, c.data());
    const auto at = [&](std::int64_t k, std::int64_t column) {
      return widen(BFloat16{from[static_cast<std::size_t>(k * row + column)]});
    };
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t place = pairs_rows ? i / 2 * 2 * columns + 2 * j + i % 2 : i * columns + j;
        double wanted = accumulates ? before[static_cast<std::size_t>(place)] : 0;
        for (std::int64_t k = 0; k < height; ++k) wanted += double{at(k, i)} * at(k, 2 * columns + j);
        REQUIRE(c[static_cast<std::size_t>(place)] == Approx(wanted).epsilon(1e-5).margin(1e-4));
      }
    }
    append(c, sums);
    return c;
  });
}

}  // namespace lockstep::tests
