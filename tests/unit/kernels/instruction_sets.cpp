#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/cpu/simd/simd.h"
#include "kernels/gradient_norm.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"
#include "kernels/pool2d.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::kernels;

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

/// The SIMD kernels for one instruction set.
struct Loops {
  std::size_t index;

  template <class Op, class... Arguments>
  auto operator()(const Op& op, Arguments... arguments) const {
    return simd::kernel<Op>(index)(op, arguments...);
  }
  void pointwise(PointwiseFunction function, PointwisePart part, const std::vector<const float*>& in,
                 float* out) const {
    PointwiseRun run{.in = {}, .in_stride = {}, .out = {out}, .n = count, .dtype = DType::f32};
    for (std::size_t i = 0; i < in.size(); ++i) {
      run.in[i] = in[i];
      run.in_stride[i] = 1;
    }
    (*this)(Pointwise::single(function, part), run);
  }
};

/// What pointwise functions, pools and updates compute: sums apart, the same bits everywhere.
std::vector<float> exact_results(const Loops& run) {
  const std::vector<float> a = numbers(count, 1);
  const std::vector<float> b = numbers(count, 2);
  std::vector<float> all;
  std::vector<float> out(count);
  const auto keep = [&] { all.insert(all.end(), out.begin(), out.end()); };
  const auto keep_function = [&](PointwiseFunction function, std::initializer_list<PointwisePart> parts) {
    for (const PointwisePart part : parts) {
      run.pointwise(function, part, {a.data(), b.data(), a.data()}, out.data());
      keep();
    }
  };
#define LOCKSTEP_UNARY(Function, name) \
  keep_function(PointwiseFunction::name, {PointwisePart::value, PointwisePart::gradient});
#define LOCKSTEP_BINARY(Function, name)  \
  keep_function(PointwiseFunction::name, \
                {PointwisePart::value, PointwisePart::gradient, PointwisePart::gradient_b});
#include "kernels/pointwise.def"

  for (const std::int64_t n : {std::int64_t{5}, count}) {
    const double sum = run(GradientNorm{}, a.data(), n);
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
  run(AdamUpdate{.weight_decay = 0.01}, state, b.data(), out.data(), first.data(), second.data(), count);
  keep();
  run(SgdUpdate{.momentum = 0.9, .nesterov = true}, state, b.data(), out.data(), first.data(), count);
  keep();

  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    for (const std::int64_t kernel : {2, 3}) {
      const PoolPlane plane{7,
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
      run(MaxPool2d{}, plane, x.data(), y.data());
      all.insert(all.end(), y.begin(), y.end());
      run(MaxPool2dBackward{.relu_mask = true}, plane, x.data(), dy.data(), dx.data());
      all.insert(all.end(), dx.begin(), dx.end());
      run(AvgPool2d{}, plane, x.data(), y.data());
      all.insert(all.end(), y.begin(), y.end());
      run(AvgPool2dBackward{}, plane, dy.data(), dx.data());
      all.insert(all.end(), dx.begin(), dx.end());
    }
  }
  return all;
}

/// Losses, norms and small products: sums, whose order follows the vector's width.
std::vector<float> summed_results(const Loops& run) {
  constexpr std::int64_t rows = 9;
  constexpr std::int64_t columns = 37;
  const std::vector<float> x = numbers(rows * columns, 7);
  const std::vector<float> w = numbers(5 * columns, 8);
  const std::vector<float> dy = numbers(rows * 5, 9);
  const std::int64_t targets[rows] = {0, 36, 5, -100, 7, 8, 9, 10, 11};
  std::vector<float> all(rows * columns);
  std::vector<RowLoss> losses(rows);
  const LossRows all_rows{0, rows, columns, 8, 0.5F};
  run(SoftmaxCrossEntropy{.label_smoothing = 0.1F}, all_rows, x.data(), &targets[0], all.data(),
      losses.data());
  for (const RowLoss& loss : losses) all.insert(all.end(), {loss.loss, loss.correct, loss.targets});
  std::vector<float> out(rows * columns);
  run(MeanSquaredError{}, all_rows, x.data(), numbers(rows * columns, 10).data(), out.data(), losses.data());
  all.insert(all.end(), out.begin(), out.end());
  for (const RowLoss& loss : losses) all.push_back(loss.loss);
  float mean[rows];
  float rstd[rows];
  run(LayerNorm{}, NormRows{0, rows, columns}, x.data(), w.data(), dy.data(), out.data(), &mean[0], &rstd[0]);
  all.insert(all.end(), out.begin(), out.end());
  std::vector<float> sums(2 * columns);
  run(LayerNormBackward{}, NormRows{0, rows, columns}, all.data(), x.data(), w.data(), &mean[0], &rstd[0],
      out.data(), sums.data());
  all.insert(all.end(), out.begin(), out.end());
  all.insert(all.end(), sums.begin(), sums.end());
  const MatmulSize size{rows, columns, 5};
  run(Linear{Activation::relu}, size, x.data(), w.data(), w.data(), out.data());
  all.insert(all.end(), out.begin(), out.begin() + rows * 5);
  run(LinearBackwardData{}, size, dy.data(), w.data(), out.data());
  all.insert(all.end(), out.begin(), out.end());
  std::vector<float> db(5);
  run(LinearBackwardWeights{}, size, x.data(), dy.data(), out.data(), db.data());
  all.insert(all.end(), out.begin(), out.begin() + 5 * columns);
  all.insert(all.end(), db.begin(), db.end());
  return all;
}

}  // namespace

TEST_CASE("all instruction sets compute what the baseline does") {
  const auto sets = simd::instruction_sets();
  for (std::size_t index = 0; index < sets.size(); ++index) {
    INFO(std::string(sets[index]));
    const auto wanted = exact_results({0});
    const auto got = exact_results({index});
    REQUIRE(got.size() == wanted.size());
    CHECK(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0);

    const auto sums = summed_results({index});
    const auto baseline_sums = summed_results({0});
    for (std::size_t i = 0; i < sums.size(); ++i) {
      // Sums of 37 terms up to 16, in another order.
      REQUIRE(sums[i] == Approx(baseline_sums[i]).epsilon(1e-5).margin(1e-4));
    }
  }
}

TEST_CASE("the widest instruction set is taken") {
  CHECK(simd::best<Linear>() == simd::kernel<Linear>(simd::instruction_sets().size() - 1));
}
