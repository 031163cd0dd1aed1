// Norms, losses and small products: what is summed over a row follows the vector's width.
#include "kernels/batch_norm.h"
#include "kernels/classifier.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pointwise.h"
#include "kernels/rms_norm.h"
#include "tests/unit/kernels/instruction_sets.h"

namespace lockstep::tests {
namespace {

using namespace kernels;

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

std::vector<float> normalised(const Loops& run) {
  std::vector<float> all;
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    run_norms(run, lanes, false, [&](const auto& values) { append(all, values); });
  }
  return all;
}

/// Rows of 37 classes in blocks of 20: what their sums become, and the gradient.
std::vector<float> classified(const Loops& run) {
  constexpr std::int64_t rows = 5;
  constexpr std::int64_t classes = 37;
  std::vector<ClassifierRow> known(rows);
  for (std::int64_t i = 0; i < rows; ++i) {
    known[static_cast<std::size_t>(i)] = {.target = i == 3 ? ClassifierRow::none : i * 9,
                                          .before = 0,
                                          .peak = -1e30F,
                                          .total = 0,
                                          .sum = 0,
                                          .hit = 0,
                                          .broken = 0};
  }
  const std::vector<float> bias = numbers(classes, 15);
  std::vector<float> blocks[2];
  std::vector<float> all;
  for (const std::int64_t b : {0, 1}) {
    const ClassifierBlock block{0, rows, 20 * b, b == 0 ? 20 : 17, classes};
    blocks[b] = numbers(static_cast<std::size_t>(rows * block.columns), static_cast<int>(16 + b));
    run(ClassifierSums{}, block, bias.data(), blocks[b].data(), known.data());
  }
  for (const std::int64_t b : {0, 1}) {
    const ClassifierBlock block{0, rows, 20 * b, b == 0 ? 20 : 17, classes};
    const float* const logits = blocks[b].data();
    const ClassifierGradient gradient{.label_smoothing = 0.1F, .scale = 0.5F, .dtype = DType::f32};
    std::vector<float> out(blocks[b].size());
    run(gradient, block, logits, static_cast<void*>(out.data()), known.data());
    append(all, out);
  }
  for (const ClassifierRow& row : known) {
    append(all, std::vector{row.peak, row.total, row.sum, row.hit, static_cast<float>(row.before)});
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
  for (const RowLoss& loss : losses)
    all.insert(all.end(), {loss.loss, loss.correct, loss.top5, loss.targets});
  std::vector<float> out(rows * columns);
  run(MeanSquaredError{}, all_rows, x.data(), numbers(rows * columns, 10).data(), out.data(), losses.data());
  append(all, out);
  for (const RowLoss& loss : losses) all.push_back(loss.loss);
  float mean[rows];
  float rstd[rows];
  std::vector<float> total(rows * columns);
  run(LayerNorm{}, NormRows{0, rows, columns}, x.data(), w.data(), dy.data(), x.data(), out.data(), &mean[0],
      &rstd[0], total.data());
  append(all, total);
  run(LayerNorm{}, NormRows{0, rows, columns}, x.data(), w.data(), dy.data(), nullptr, out.data(), &mean[0],
      &rstd[0], nullptr);
  append(all, out);
  std::vector<float> sums(2 * columns);
  run(LayerNormBackward{}, NormRows{0, rows, columns}, all.data(), x.data(), w.data(), &mean[0], &rstd[0],
      x.data(), out.data(), nullptr, sums.data());
  append(all, out);
  append(all, sums);
  run(RmsNorm{}, NormRows{0, rows, columns}, x.data(), w.data(), out.data(), &rstd[0]);
  append(all, out);
  run(RmsNormBackward{}, NormRows{0, rows, columns}, all.data(), x.data(), w.data(), &rstd[0], out.data(),
      sums.data());
  append(all, out);
  append(all, sums);
  for (const std::int64_t lanes : {1, 8, 16, 27}) {
    run_norms(run, lanes, true, [&](const auto& values) { append(all, values); });
  }
  const MatmulSize size{rows, columns, 5};
  run(Linear{Activation::relu}, size, x.data(), w.data(), w.data(), out.data());
  all.insert(all.end(), out.begin(), out.begin() + rows * 5);
  run(LinearBackwardData{}, size, dy.data(), w.data(), out.data());
  append(all, out);
  std::vector<float> db(5);
  run(LinearBackwardWeights{}, size, x.data(), dy.data(), out.data(), db.data());
  all.insert(all.end(), out.begin(), out.begin() + 5 * columns);
  append(all, db);
  return all;
}

}  // namespace

TEST_CASE("all instruction sets normalise to the baseline's bits") {
  check_same_bits(normalised);
}

TEST_CASE("all instruction sets sum losses, norms and products as the baseline does") {
  check_same_sums(summed_results);
}

TEST_CASE("all instruction sets take a classifier's blocks as the baseline does") {
  check_same_sums(classified);
}

}  // namespace lockstep::tests
