#include <cmath>
#include <cstring>
#include <iterator>

#include "kernels/batch_norm.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/depthwise_conv2d.h"
#include "kernels/dropout.h"
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

/// x, dy and what a strip of 27 pixels has of each channel; `keep(numbers)` gets what the passes write.
template <class Keep>
void run_norms(const Loops& run, std::int64_t lanes, bool sums, const Keep& keep) {
  const NormStrip strip{.pixels = 27, .lanes = lanes, .channels = lanes, .dtype = DType::f32};
  const auto n = static_cast<std::size_t>(27 * lanes);
  const std::vector<float> x = numbers(n, 11);
  const std::vector<float> dy = numbers(n, 12);
  const std::vector<float> of_channels = numbers(4 * static_cast<std::size_t>(lanes), 13);
  const float* const mean = of_channels.data();
  const std::vector<float> variance(static_cast<std::size_t>(lanes), 2.5F);
  const float* const weight = mean + lanes;
  const float* const bias = weight + lanes;
  const FollowingFunction relu{.is_there = true, .function = PointwiseFunction::relu};
  std::vector<float> out(n);
  std::vector<float> first(static_cast<std::size_t>(lanes));
  std::vector<float> second(static_cast<std::size_t>(lanes));
  if (sums) {
    run(BatchStatistics{}, strip, x.data(), first.data(), second.data());
    keep(first);
    keep(second);
    run(BatchNormSums{.then = relu}, strip, dy.data(), x.data(), mean, variance.data(), weight, bias,
        first.data(), second.data());
    keep(first);
    keep(second);
    return;
  }
  run(BatchNorm{.then = relu}, strip, x.data(), mean, variance.data(), weight, bias, dy.data(), out.data());
  keep(out);
  run(BatchNormBackward{.then = relu}, strip, 27.0, dy.data(), x.data(), mean, variance.data(), weight, bias,
      weight, bias, out.data());
  keep(out);
}

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
    const double sum = run(GradientNorm{}, 1e9F, a.data(), n);
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
  run(AdamUpdate{.weight_decay = 0.01}, state, b.data(), out.data(), first.data(), second.data(), nullptr,
      count);
  keep();
  std::vector<float> greatest = numbers(count, 5);
  run(AdamUpdate{.amsgrad = true, .clip_value = 2}, state, b.data(), out.data(), first.data(), second.data(),
      greatest.data(), count);
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
      for (const DType dtype : {DType::f32, DType::bf16}) {
        PoolPlane typed = plane;
        typed.dtype = dtype;
        run(AdaptiveAvgPool2dBackward{}, typed, static_cast<const void*>(dy.data()),
            static_cast<void*>(dx.data()));
        all.insert(all.end(), dx.begin(), dx.begin() + (dtype == DType::f32 ? 35 : 17) * lanes);
      }
      run(AvgPool2d{}, plane, x.data(), y.data());
      all.insert(all.end(), y.begin(), y.end());
      run(AvgPool2dBackward{}, plane, dy.data(), dx.data());
      all.insert(all.end(), dx.begin(), dx.end());
    }
  }
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    run_norms(run, lanes, false,
              [&](const auto& values) { all.insert(all.end(), values.begin(), values.end()); });
  }
  return all;
}

/// Sums whose order is fixed lane by lane, and random words.
std::vector<float> exact_lanes(const Loops& run) {
  constexpr std::int64_t lanes = 27;
  std::vector<float> all;
  for (const std::int64_t width : {2, 3, 5}) {
    const DepthwiseRow row{.dtype = DType::f32,
                           .images = 2,
                           .height = 4,
                           .width = 5,
                           .out_height = 2,
                           .out_width = 3,
                           .x_image = 20 * lanes,
                           .x_row = 5 * lanes,
                           .y_image = 6 * lanes,
                           .y_row = 3 * lanes,
                           .pixel = lanes,
                           .kernel_row = 1,
                           .kernel_w = width,
                           .stride_h = 2,
                           .stride_w = 2,
                           .padding_h = 1,
                           .padding_w = 1,
                           .dilation_h = 1,
                           .dilation_w = 1,
                           .lanes = lanes,
                           .w_tap = lanes,
                           .w_lane = 1,
                           .w_lanes = lanes,
                           .b_lanes = lanes};
    const std::vector<float> x = numbers(40 * lanes, 5);
    const std::vector<float> dy = numbers(12 * lanes, 6);
    std::vector<float> dw(static_cast<std::size_t>(width * lanes));
    std::vector<float> db(lanes);
    const auto in = [](const std::vector<float>& values) { return static_cast<const void*>(values.data()); };
    run(Conv2dBackwardWeights{}, row, in(x), in(dy), static_cast<void*>(dw.data()),
        static_cast<void*>(db.data()));
    all.insert(all.end(), dw.begin(), dw.end());
    all.insert(all.end(), db.begin(), db.end());
  }
  const Dropout dropout{.p = 0.3, .stream = 1};
  const DropoutRun part{.random = dropout.random({.seed = 5, .global_step = 2}),
                        .sample = 3,
                        .first = 5,
                        .n = count,
                        .dtype = DType::f32};
  const std::vector<float> x = numbers(count, 1);
  std::vector<float> y(count);
  run(dropout, part, static_cast<const void*>(x.data()), static_cast<void*>(y.data()));
  all.insert(all.end(), y.begin(), y.end());
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
  for (const RowLoss& loss : losses)
    all.insert(all.end(), {loss.loss, loss.correct, loss.top5, loss.targets});
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
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    run_norms(run, lanes, true,
              [&](const auto& values) { all.insert(all.end(), values.begin(), values.end()); });
  }
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

    CHECK(exact_lanes({index}) == exact_lanes({0}));

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
