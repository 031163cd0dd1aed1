#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/cpu/loops/loops.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::kernels;
using loops::Loops;

namespace {

constexpr std::int64_t count = 1037;

std::vector<float> numbers(std::size_t n, int seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<float>(
                    static_cast<int>((i * 7919 + static_cast<std::size_t>(seed) * 104729) % 2003) - 1001) /
                257.0F;
  }
  return values;
}

/// All that a table's element-wise loops, pools and updates compute: sums apart, the same bits everywhere.
std::vector<float> exact_results(const Loops& table) {
  const std::vector<float> a = numbers(count, 1);
  const std::vector<float> b = numbers(count, 2);
  std::vector<float> all;
  std::vector<float> out(count);
  const auto keep = [&] { all.insert(all.end(), out.begin(), out.end()); };
  table.relu(a.data(), out.data(), count);
  keep();
  table.relu_backward(a.data(), b.data(), out.data(), count);
  keep();
  table.add(a.data(), b.data(), out.data(), count);
  keep();

  for (const std::int64_t n : {std::int64_t{5}, count}) {
    const double sum = table.sum_of_squares(a.data(), n);
    float halves[2];  // all of the double's bits
    static_assert(sizeof(halves) == sizeof(sum));
    std::memcpy(halves, &sum, sizeof(sum));
    all.insert(all.end(), std::begin(halves), std::end(halves));
  }

  StepState state;
  state.step = 3;
  state.learning_rate = 0.01F;
  state.bias_correction1 = 0.271F;
  state.bias_correction2_sqrt = 0.0547F;
  out = a;
  std::vector<float> first = numbers(count, 3);
  std::vector<float> second = numbers(count, 4);
  for (float& value : second) value = std::abs(value);
  table.adam({.weight_decay = 0.01}, state, b.data(), out.data(), first.data(), second.data(), count);
  keep();
  table.sgd({.momentum = 0.9, .nesterov = true}, state, b.data(), out.data(), first.data(), count);
  keep();

  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    for (const std::int64_t kernel : {2, 3}) {
      const loops::PoolPlane plane{7,
                                   5,
                                   kernel == 2 ? 3 : 4,
                                   kernel == 2 ? 2 : 3,
                                   5 * lanes,
                                   (kernel == 2 ? 2 : 3) * lanes,
                                   lanes,
                                   lanes,
                                   kernel,
                                   kernel,
                                   2,
                                   2,
                                   kernel - 2,
                                   kernel - 2};
      const std::vector<float> x = numbers(static_cast<std::size_t>(35 * lanes), 5);
      const std::vector<float> dy = numbers(static_cast<std::size_t>(12 * lanes), 6);
      std::vector<float> y(dy.size());
      std::vector<float> dx(x.size());
      table.max_pool(plane, x.data(), y.data());
      all.insert(all.end(), y.begin(), y.end());
      table.max_pool_backward(plane, true, x.data(), dy.data(), dx.data());
      all.insert(all.end(), dx.begin(), dx.end());
      table.avg_pool(plane, x.data(), y.data());
      all.insert(all.end(), y.begin(), y.end());
      table.avg_pool_backward(plane, dy.data(), dx.data());
      all.insert(all.end(), dx.begin(), dx.end());
    }
  }
  return all;
}

/// Losses and small products: sums, whose order follows the vector's width.
std::vector<float> summed_results(const Loops& table) {
  constexpr std::int64_t rows = 9;
  constexpr std::int64_t columns = 37;
  const std::vector<float> x = numbers(rows * columns, 7);
  const std::vector<float> w = numbers(5 * columns, 8);
  const std::vector<float> dy = numbers(rows * 5, 9);
  const std::int64_t targets[rows] = {0, 36, 5, -100, 7, 8, 9, 10, 11};
  std::vector<float> all(rows * columns);
  std::vector<loops::RowLoss> losses(rows);
  table.cross_entropy({0, rows, columns, 8, 0.5F}, 0.1F, x.data(), targets, all.data(), losses.data());
  for (const loops::RowLoss& loss : losses) all.insert(all.end(), {loss.loss, loss.correct, loss.targets});
  std::vector<float> out(rows * columns);
  table.squared_error({0, rows, columns, 8, 0.5F}, x.data(), numbers(rows * columns, 10).data(), out.data(),
                      losses.data());
  all.insert(all.end(), out.begin(), out.end());
  for (const loops::RowLoss& loss : losses) all.push_back(loss.loss);
  const loops::SmallLinear size{rows, columns, 5};
  table.linear(size, true, x.data(), w.data(), w.data(), out.data());
  all.insert(all.end(), out.begin(), out.begin() + rows * 5);
  table.linear_backward_data(size, dy.data(), w.data(), out.data());
  all.insert(all.end(), out.begin(), out.end());
  std::vector<float> db(5);
  table.linear_backward_weights(size, x.data(), dy.data(), out.data(), db.data());
  all.insert(all.end(), out.begin(), out.begin() + 5 * columns);
  all.insert(all.end(), db.begin(), db.end());
  return all;
}

}  // namespace

TEST_CASE("all instruction sets compute what the baseline does") {
  const Loops& baseline = *loops::available().front();
  for (const Loops* table : loops::available()) {
    INFO(std::string(table->name));
    const auto wanted = exact_results(baseline);
    const auto got = exact_results(*table);
    REQUIRE(got.size() == wanted.size());
    CHECK(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0);

    const auto sums = summed_results(*table);
    const auto baseline_sums = summed_results(baseline);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      // Sums of 37 terms up to 16, in another order.
      REQUIRE(sums[i] == Approx(baseline_sums[i]).epsilon(1e-5).margin(1e-4));
    }
  }
}

TEST_CASE("the widest instruction set is taken") {
  CHECK(&loops::best() == loops::available().back());
}
