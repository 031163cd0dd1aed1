// Norms, losses and small products: what is summed over a row follows the vector's width.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/half.h"
#include "kernels/batch_norm.h"
#include "kernels/classifier.h"
#include "kernels/layer_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/pointwise.h"
#include "kernels/rms_norm.h"
#include "kernels/sum_to.h"
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

/// Rows of 37 classes in blocks of 20; one has no target.
struct Classified {
  static constexpr std::int64_t rows = 5;
  static constexpr std::int64_t classes = 37;
  std::vector<ClassifierRow> known{rows};
  std::vector<float> bias = numbers(classes, 15);
  std::vector<float> logits[2];

  Classified() {
    for (std::int64_t b : {0, 1}) {
      logits[b] = numbers(static_cast<std::size_t>(rows * block(b).columns), static_cast<int>(16 + b));
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t target = i == 3 ? ClassifierRow::none : i * 9;
      const std::int64_t at = target < 20 ? i * 20 + target : i * 17 + target - 20;
      const float hit = target < 0 ? 0 : logits[target < 20 ? 0 : 1][at] + bias[target];
      known[i] = {
          .target = target, .before = 0, .peak = -1e30F, .total = 0, .sum = 0, .hit = hit, .broken = 0};
    }
  }
  static ClassifierBlock block(std::int64_t b) {
    const std::int64_t columns = b == 0 ? 20 : 17;
    return {0, rows, 20 * b, columns, columns, classes};
  }

  void append_known(std::vector<float>& all) const {
    for (const ClassifierRow& row : known) {
      append(all, std::vector{row.peak, row.total, row.sum, row.hit, static_cast<float>(row.before)});
    }
  }
};

/// What the rows' sums become, and the gradient.
std::vector<float> classified(const Loops& run) {
  Classified c;
  std::vector<float> all;
  for (const std::int64_t b : {0, 1}) {
    run(ClassifierSums{}, Classified::block(b), c.bias.data(), c.logits[b].data(), c.known.data());
  }
  for (const std::int64_t b : {0, 1}) {
    const float* const logits = c.logits[b].data();
    const ClassifierGradient gradient{.label_smoothing = 0.1F, .scale = 0.5F, .dtype = DType::f32};
    std::vector<float> out(c.logits[b].size());
    run(gradient, Classified::block(b), logits, static_cast<void*>(out.data()), c.known.data());
    append(all, out);
  }
  c.append_known(all);
  return all;
}

/// The same from exponentials in bf16.
std::vector<float> classified_by_exponentials(const Loops& run) {
  Classified c;
  std::vector<float> all;
  std::vector<BFloat16> kept[2];
  float peaks[2][Classified::rows];
  for (const std::int64_t b : {0, 1}) {
    kept[b].resize(c.logits[b].size());
    run(ClassifierExponentials{}, Classified::block(b), c.bias.data(), c.logits[b].data(),
        static_cast<void*>(kept[b].data()), &peaks[b][0], c.known.data());
  }
  for (const std::int64_t b : {0, 1}) {
    std::vector<BFloat16> out(kept[b].size());
    run(ClassifierKeptGradient{.label_smoothing = 0.1F, .scale = 0.5F}, Classified::block(b),
        static_cast<const void*>(kept[b].data()), &peaks[b][0], static_cast<void*>(out.data()),
        c.known.data());
    for (const BFloat16 half : out) all.push_back(widen(half));
  }
  c.append_known(all);
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

// One after another, a million times 0.1 is 1 % more than 100000.
TEST_CASE("all instruction sets sum many equal terms without adding up their roundings") {
  constexpr std::int64_t terms = 1 << 20;
  const std::vector<float> x(terms, 0.1F);
  for (std::size_t index = 0; index < kernels::simd::instruction_sets().size(); ++index) {
    const Loops run{index};
    const auto sums_of = [&](const SumRun& walk) {
      std::vector<float> sums(64);
      run(SumTo{}, walk, static_cast<const void*>(x.data()), sums.data());
      return sums;
    };
    const SumRun rows{.dtype = DType::f32, .n = 64, .to_one = false, .runs = terms, .x_step = 0, .y_step = 0};
    for (const float sum : sums_of(rows)) REQUIRE(sum == Approx(0.1F * terms).epsilon(5e-5));
    const SumRun one{.dtype = DType::f32, .n = terms, .to_one = true, .runs = 1, .x_step = 0, .y_step = 0};
    CHECK(sums_of(one)[0] == Approx(0.1F * terms).epsilon(5e-5));
  }
}

TEST_CASE("all instruction sets take a classifier's blocks as the baseline does") {
  check_same_sums(classified);
}

TEST_CASE("a block of a classifier whose logits are all -infinity leaves the others' sums finite") {
  for (std::size_t index = 0; index < kernels::simd::instruction_sets().size(); ++index) {
    const Loops run{index};
    for (const std::int64_t masked : {0, 1}) {
      Classified c;
      std::ranges::fill(c.logits[masked], -std::numeric_limits<float>::infinity());
      for (const std::int64_t b : {0, 1}) {
        std::vector<BFloat16> kept(c.logits[b].size());
        float peaks[Classified::rows];
        run(ClassifierExponentials{}, Classified::block(b), c.bias.data(), c.logits[b].data(),
            static_cast<void*>(kept.data()), &peaks[0], c.known.data());
      }
      for (const ClassifierRow& row : c.known) {
        CHECK(row.broken == 0);
        if (row.target == ClassifierRow::none) continue;
        CHECK(row.total >= 1);  // its greatest logit's e^0
        CHECK(row.total <= Classified::classes);
      }
    }
  }
}

// An exponential is rounded to bf16, and so is the gradient: half a unit of the last place each.
TEST_CASE("exponentials of a classifier's blocks in bf16 give what its logits do") {
  for (std::size_t index = 0; index < kernels::simd::instruction_sets().size(); ++index) {
    const std::vector<float> wanted = classified(Loops{index});
    const std::vector<float> got = classified_by_exponentials(Loops{index});
    REQUIRE(got.size() == wanted.size());
    constexpr std::size_t gradients = Classified::rows * Classified::classes;
    constexpr float scale = 0.5F;  // of an exponential over their sum, which the gradient is less than
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO(i);
      const float half =
          i < gradients
              ? 0x1p-8F * (std::abs(wanted[i]) + std::min(scale, std::abs(wanted[i]) + scale * 0.1F / 37))
              : 0;
      REQUIRE(std::abs(got[i] - wanted[i]) <= half + 1e-5F * std::abs(wanted[i]) + 1e-7F);
    }
  }
}

}  // namespace lockstep::tests
