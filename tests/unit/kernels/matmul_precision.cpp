#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>
#include <string_view>

#include "kernels/conv2d.h"
#include "kernels/cpu/linear_panels.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/linear.h"
#include "tests/support/largest_error.h"
#include "tests/unit/kernels/reference.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

/// In [-1, 1), with all bits of an f32's mantissa in use: what a narrower type has to round.
Values full_values(const Shape& shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Values values{shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
  for (double& value : values.data) value = static_cast<double>(uniform(generator));
  return values;
}

/// Of a sum of products of factors up to 1, all in f32.
double sum_tolerance(double terms) {
  return 1e-6 * terms + 1e-6;
}

/// A factor cut to `bits` of mantissa, rounded or truncated, is off by less than 2^-bits of itself; two such
/// factors up to 1 give a product that is off by 2^(1 - bits), and a bit for what both are off by.
double tolerance(double terms, MatmulPrecision precision) {
  const int bits = precision == MatmulPrecision::medium ? 7 : 10;
  return terms * std::ldexp(1.01, 1 - bits) + 2 * sum_tolerance(terms);
}

double distance(const Values& a, const Values& b) {
  return tests::largest_error(a.data, b.data);
}

/// One direction of a product.
struct Direction {
  const char* name;
  double terms;  ///< of each sum
  std::function<Values(MatmulPrecision)> run;
};

const Shape matrix{128, 128};

std::vector<Direction> linear_directions() {
  const Values x = full_values(matrix, 1);
  const Values w = full_values(matrix, 2);
  const Values b = full_values({128}, 3);
  const Values dy = full_values(matrix, 4);
  const auto layouts = Layouts::chosen;
  return {{"linear forward", 128,
           [=](MatmulPrecision p) {
             return run(Linear{.precision = p}, {x, w, b}, {matrix}, layouts)[0];
           }},
          {"linear backward data", 128,
           [=](MatmulPrecision p) {
             return run(LinearBackwardData{.precision = p}, {dy, w}, {matrix}, layouts)[0];
           }},
          {"linear backward weights", 128,
           [=](MatmulPrecision p) {
             return run(LinearBackwardWeights{.precision = p}, {x, dy}, {matrix, {128}}, layouts)[0];
           }},
          {"linear bias gradient", 128, [=](MatmulPrecision p) {
             return run(LinearBackwardWeights{.precision = p}, {x, dy}, {matrix, {128}}, layouts)[1];
           }}};
}

std::vector<Direction> conv_directions() {
  const Shape pictures{4, 32, 8, 8};
  const Values x = full_values(pictures, 1);
  const Values w = full_values({32, 32, 3, 3}, 2);
  const Values b = full_values({32}, 3);
  const Values dy = full_values(pictures, 4);
  const Conv2dGeometry same{.padding = {1, 1}};
  const auto layouts = Layouts::chosen;
  return {
      {"conv2d forward", 32 * 9,
       [=](MatmulPrecision p) {
         return run(Conv2d{.geometry = same, .precision = p}, {x, w, b}, {pictures}, layouts)[0];
       }},
      {"conv2d backward data", 32 * 9,
       [=](MatmulPrecision p) {
         return run(Conv2dBackwardData{.geometry = same, .precision = p}, {dy, w}, {pictures}, layouts)[0];
       }},
      {"conv2d backward weights", 4 * 64, [=](MatmulPrecision p) {
         return run(Conv2dBackwardWeights{.geometry = same, .precision = p}, {x, dy}, {w.shape, {32}},
                    layouts)[0];
       }}};
}

std::vector<Direction> all_directions() {
  std::vector<Direction> all = linear_directions();
  std::ranges::move(conv_directions(), std::back_inserter(all));
  return all;
}

bool is_bias_gradient(const Direction& direction) {
  return std::string_view(direction.name) == "linear bias gradient";
}

}  // namespace

TEST_CASE("high and medium stay within what their factors' bits allow", "[precision]") {
  const auto precision = GENERATE(MatmulPrecision::high, MatmulPrecision::medium);
  for (const Direction& direction : all_directions()) {
    INFO(direction.name << " at " << name_of(precision));
    require_close(direction.run(precision), direction.run(MatmulPrecision::highest),
                  tolerance(direction.terms, precision));
  }
}

TEST_CASE("highest is IEEE f32; on a GPU high and medium are not, on a CPU high is", "[precision]") {
  const bool gpu = !device().is_cpu();
  for (const auto& directions : {linear_directions(), conv_directions()}) {
    bool rounded = false;
    for (const Direction& direction : directions) {
      if (is_bias_gradient(direction))
        continue;  // no product; whether its terms are rounded is the library's choice
      INFO(direction.name);
      const Values highest = direction.run(MatmulPrecision::highest);
      const double high = distance(direction.run(MatmulPrecision::high), highest);
      const double medium = distance(direction.run(MatmulPrecision::medium), highest);
      if (!gpu) CHECK(high == 0);
      rounded |= std::min(high, medium) > sum_tolerance(direction.terms);
    }
    // Not in each direction: of some shapes cuDNN's best plan has no tensor cores, and more exact than asked
    // is right.
    if (gpu) CHECK(rounded);
  }
}

TEST_CASE("f32 products at highest use every bit of their factors", "[precision]") {
  const Values x = full_values(matrix, 1);
  const Values w = full_values(matrix, 2);
  const Values y = linear(x, w, nullptr);
  require_close(run(Linear{}, {x, w}, {y.shape}, Layouts::chosen)[0], y, sum_tolerance(128));
  const Values pictures = full_values({4, 32, 8, 8}, 1);
  const Values filters = full_values({32, 32, 1, 1}, 2);
  const Values z = conv2d(pictures, filters, nullptr, {});
  require_close(run(Conv2d{}, {pictures, filters}, {z.shape}, Layouts::chosen)[0], z, sum_tolerance(32));
}

TEST_CASE("gradients of large linear maps give way to bf16 where the processor has faster products of it") {
  if (!device().is_cpu()) return;
  const bool gives_way = onednn::multiplies_by_amx();
  const auto has = [](std::string_view instructions) {
    return simd::instruction_sets().back().starts_with(instructions);
  };
  constexpr std::int64_t rows = 1030, inputs = 576, outputs = 192;
  const Shape x{rows, inputs};
  const Shape w{outputs, inputs};
  const Shape dy{rows, outputs};
  const auto type_of = [](const Shape& shape) { return TensorDesc{DType::f32, shape, {}}; };
  const KernelIo data{{type_of(dy), type_of(w)}, {type_of(x)}};
  const KernelIo weights{{type_of(x), type_of(dy)}, {type_of(w)}};
  const auto medium = MatmulPrecision::medium;
  CHECK(takes_panels(LinearBackwardData{}, data) == has("avx512"));
  CHECK(takes_panels(LinearBackwardData{.precision = medium}, data) == (has("avx512") && !gives_way));
  CHECK(takes_panels(LinearBackwardWeights{}, weights) == has("avx"));
  CHECK(takes_panels(LinearBackwardWeights{.precision = medium}, weights) == (has("avx") && !gives_way));
}
