#include "kernels/loss.h"

#include <cmath>
#include <cstring>

#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Outcome {
  ControlBlock control;
  std::vector<float> gradient;
};

/// `rows`: the layout of predictions and gradient, if it is not row-major.
template <class Spec, class Target>
Outcome run_loss(const Spec& spec, const Values& predictions, const std::vector<Target>& targets, DType type,
                 const Shape& target_shape, const StepState& state, bool gradient = true,
                 const std::optional<Layout>& rows = {}) {
  const Layout layout = rows.value_or(Layout::row_major(predictions.shape));
  KernelIo io;
  io.inputs = {{DType::f32, predictions.shape, layout},
               {type, target_shape, {}},
               {DType::u8, {sizeof(StepState)}, {}}};
  io.outputs.push_back({DType::u8, {sizeof(ControlBlock)}, {}});
  if (gradient) io.outputs.push_back({DType::f32, predictions.shape, {}});
  choose_layouts(device(), spec, io);
  CHECK(io.inputs[0].layout == layout);
  const auto kernel = kernel_for(device(), spec, io);
  const auto x = pack(predictions, layout);
  const auto dx = upload(std::vector<float>(static_cast<std::size_t>(layout.span()), NAN));
  const auto workspace = device().allocate(kernel->workspace_bytes());
  const auto read = upload(std::vector{state});
  const auto goals = upload(targets);
  const auto control = upload(std::vector{ControlBlock{.rank = 3}});
  std::vector<void*> addresses{x->data(), goals->data(), read->data()};
  addresses.push_back(control->data());
  if (gradient) addresses.push_back(dx->data());
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
  return {.control = download<ControlBlock>(*control).front(), .gradient = download<float>(*dx)};
}

Outcome cross_entropy(const Values& logits, const std::vector<std::int64_t>& targets, const StepState& state,
                      float smoothing = 0) {
  return run_loss(SoftmaxCrossEntropy{smoothing}, logits, targets, DType::i64,
                  {static_cast<std::int64_t>(targets.size())}, state);
}

/// Loss of the first `valid` rows, summed, from the definition.
double reference(const Values& logits, const std::vector<std::int64_t>& targets, std::size_t valid,
                 double smoothing) {
  const auto classes = static_cast<std::size_t>(logits.shape[1]);
  double loss = 0;
  for (std::size_t row = 0; row < valid; ++row) {
    if (targets[row] == -100) continue;
    const double* x = logits.data.data() + row * classes;
    double total = 0;
    for (std::size_t k = 0; k < classes; ++k) total += std::exp(x[k]);
    for (std::size_t k = 0; k < classes; ++k) {
      const double share = (static_cast<std::size_t>(targets[row]) == k ? 1 - smoothing : 0) +
                           smoothing / static_cast<double>(classes);
      loss += share * (std::log(total) - x[k]);
    }
  }
  return loss;
}

StepState state_of(std::int32_t valid, float scale = 0.25F) {
  StepState state;
  state.valid_samples = valid;
  state.loss_scale = scale;
  return state;
}

}  // namespace

TEST_CASE("softmax cross-entropy: loss, count, gradient by finite differences") {
  for (const float smoothing : {0.0F, 0.1F}) {
    for (const std::int64_t classes : {2, 10, 17, 1000, 1500}) {
      Values logits = random_values({7, classes}, 8);
      for (double& value : logits.data) value *= 4;
      std::vector<std::int64_t> targets;
      for (std::int64_t row = 0; row < 7; ++row) targets.push_back(row * 5 % classes);
      targets[2] = -100;
      const Outcome got = cross_entropy(logits, targets, state_of(5), smoothing);
      CHECK(got.control.loss == Approx(0.25 * reference(logits, targets, 5, smoothing)).epsilon(1e-5));
      CHECK(got.control.targets == 4);
      CHECK(got.control.not_finite == 0);
      for (std::size_t i = 0; i<logits.data.size(); i += classes> 100 ? 97 : 1) {
        const double at = logits.data[i];
        logits.data[i] = at + 1e-4;
        const double above = reference(logits, targets, 5, smoothing);
        logits.data[i] = at - 1e-4;
        const double below = reference(logits, targets, 5, smoothing);
        logits.data[i] = at;
        // f32 exponentials and sums of up to 1000 of them.
        CHECK(std::abs(static_cast<double>(got.gradient[i]) - 0.25 * (above - below) / 2e-4) < 1e-6);
      }
    }
  }
}

TEST_CASE("softmax cross-entropy counts the rows whose greatest logit is the target") {
  const Values logits{{3, 3}, {1, 2, 0, 3, 1, 3, 0, 0, 1}};
  CHECK(cross_entropy(logits, {1, 0, 0}, state_of(3)).control.correct ==
        2);  // of two equal ones the first counts
}

TEST_CASE("softmax cross-entropy counts the rows whose target is among the five greatest logits") {
  const std::int64_t classes = GENERATE(8, 1500);
  // The first row has the greatest logits at the end, in the second all are equal: the first five are the
  // greatest.
  Values logits{{2, classes}, {}};
  for (std::int64_t k = 0; k < classes; ++k) logits.data.push_back(static_cast<double>(k) / 64);
  logits.data.resize(static_cast<std::size_t>(2 * classes), 1);
  const auto top5 = [&](std::int64_t first, std::int64_t second) {
    return cross_entropy(logits, {first, second}, state_of(2)).control.top5;
  };
  CHECK(top5(classes - 1, 0) == 2);
  CHECK(top5(classes - 5, 4) == 2);
  CHECK(top5(classes - 6, 4) == 1);
  CHECK(top5(classes - 6, 5) == 0);
  CHECK(cross_entropy(logits, {classes - 1, -100}, state_of(2)).control.top5 == 1);
  logits.data[0] = std::nan("");
  CHECK(top5(classes - 1, 4) == 1);
}

TEST_CASE("no row with a NaN counts as right") {
  const std::int64_t classes = GENERATE(3, 1500);
  const std::int64_t broken = GENERATE(0, 1);
  Values logits{{1, classes}, std::vector<double>(static_cast<std::size_t>(classes), 1)};
  logits.data[static_cast<std::size_t>(broken)] = std::nan("");
  for (const std::int64_t target : {std::int64_t{0}, std::int64_t{1}, classes - 1}) {
    const ControlBlock got = cross_entropy(logits, {target}, state_of(1)).control;
    CHECK(got.correct + got.top5 == 0);
  }
}

TEST_CASE("a loss that is not finite is told with its rank") {
  const Values logits{{1, 2}, {std::nan(""), 0}};
  CHECK(cross_entropy(logits, {0}, state_of(1)).control.not_finite_ranks == 3);
  CHECK(cross_entropy({{1, 2}, {1, 0}}, {0}, state_of(1)).control.not_finite_ranks == 0);
}

TEST_CASE("a target out of range makes the loss not finite, and no padding row counts") {
  const Values logits = random_values({3, 5}, 9);
  for (const std::int64_t bad : {5L, -1L, 1L << 40}) {
    const Outcome got = cross_entropy(logits, {0, bad, 1}, state_of(3));
    CHECK(std::isnan(got.control.loss));
    CHECK(got.control.not_finite == 1);
    CHECK(cross_entropy(logits, {0, 1, bad}, state_of(2)).control.not_finite == 0);
  }
}

TEST_CASE("great, infinite and broken logits") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Outcome great = cross_entropy({{1, 2}, {1000, -1000}}, {1}, state_of(1, 1));
  CHECK(great.control.loss == Approx(2000));
  CHECK(great.gradient[1] == Approx(-1));
  CHECK(cross_entropy({{1, 2}, {1, -infinity}}, {0}, state_of(1)).control.not_finite == 0);
  CHECK(cross_entropy({{1, 2}, {1, infinity}}, {0}, state_of(1)).control.not_finite == 1);
  const Outcome broken = cross_entropy({{1, 2}, {1, std::nan("")}}, {0}, state_of(1));
  CHECK(broken.control.not_finite == 1);
  CHECK(std::isnan(broken.gradient[0]));
}

TEST_CASE("mean squared error and its gradient") {
  const Values y = random_values({7, 3}, 10);
  const Values target = random_values({7, 3}, 11);
  const std::vector<float> targets(target.data.begin(), target.data.end());
  const Outcome got = run_loss(MeanSquaredError{}, y, targets, DType::f32, y.shape, state_of(6));
  double loss = 0;
  for (std::size_t i = 0; i < 21; ++i) {
    const double difference = y.data[i] - target.data[i];
    const bool counts = i < 18;
    if (counts) loss += difference * difference / 3;
    CHECK(got.gradient[i] == Approx(counts ? 0.25 * 2 * difference / 3 : 0).margin(1e-7));
  }
  CHECK(got.control.loss == Approx(0.25 * loss));
  CHECK(got.control.targets == 6);
  const Outcome eval =
      run_loss(MeanSquaredError{.has_gradient = false}, y, targets, DType::f32, y.shape, state_of(6), false);
  CHECK(eval.control.loss == got.control.loss);
}

TEST_CASE("the rows of a great batch are summed, and to the same bits each time") {
  constexpr std::int64_t rows = 777;
  const Values logits = random_values({rows, 10}, 13);
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row) targets.push_back(row % 10);
  const Outcome got = cross_entropy(logits, targets, state_of(700));
  CHECK(got.control.loss == Approx(0.25 * reference(logits, targets, 700, 0)).epsilon(1e-5));
  CHECK(got.control.targets == 700);
  const Outcome again = cross_entropy(logits, targets, state_of(700));
  CHECK(std::memcmp(&got.control, &again.control, sizeof(ControlBlock)) == 0);
}

TEST_CASE("mean squared error of long rows") {
  const Values y = random_values({3, 2000}, 14);
  const Values target = random_values({3, 2000}, 15);
  const std::vector<float> targets(target.data.begin(), target.data.end());
  const Outcome got = run_loss(MeanSquaredError{}, y, targets, DType::f32, y.shape, state_of(2));
  double loss = 0;
  for (std::size_t i = 0; i < 6000; ++i) {
    const double difference = y.data[i] - target.data[i];
    if (i < 4000) loss += difference * difference / 2000;
    REQUIRE(got.gradient[i] == Approx(i < 4000 ? 0.25 * 2 * difference / 2000 : 0).margin(1e-9));
  }
  CHECK(got.control.loss == Approx(0.25 * loss));
}

TEST_CASE("evaluation computes the same loss without a gradient") {
  const Values logits = random_values({7, 10}, 12);
  const std::vector<std::int64_t> targets{0, 1, 2, 3, 4, 5, 6};
  const Outcome train = cross_entropy(logits, targets, state_of(7));
  const Outcome eval = run_loss(SoftmaxCrossEntropy{.has_gradient = false}, logits, targets, DType::i64, {7},
                                state_of(7), false);
  CHECK(std::memcmp(&train.control, &eval.control, sizeof(ControlBlock)) == 0);
}

TEST_CASE("on a GPU predictions may have room behind each row, where the gradient becomes zero") {
  if (device().is_cpu()) return;
  const std::int64_t columns = GENERATE(10, 1030);  // a warp to a row, a block
  const std::int64_t stride = columns + 6;
  const Values x = random_values({2, 3, columns}, 17);
  const std::vector<std::int64_t> targets{0, -100, 5, 1, 2, 3};  // the last three are padding
  const auto same = [&](const Outcome& plain, const Outcome& with_room) {
    CHECK(std::memcmp(&plain.control, &with_room.control, sizeof(ControlBlock)) == 0);
    REQUIRE(with_room.gradient.size() == static_cast<std::size_t>(6 * stride));
    for (std::int64_t i = 0; i < 6 * stride; ++i) {
      const bool inside = i % stride < columns;
      const auto at = static_cast<std::size_t>(i / stride * columns + i % stride);
      REQUIRE(with_room.gradient[static_cast<std::size_t>(i)] == (inside ? plain.gradient[at] : 0));
    }
  };
  const SoftmaxCrossEntropy entropy{0.1F};
  const auto of_classes = [&](const std::optional<Layout>& rows) {
    return run_loss(entropy, x, targets, DType::i64, {2, 3}, state_of(1), true, rows);
  };
  same(of_classes({}), of_classes(Layout::row_major({2, 3, stride})));
  const Values y{{6, columns}, x.data};
  const Values goals = random_values(y.shape, 18);
  const std::vector<float> numbers(goals.data.begin(), goals.data.end());
  const auto of_values = [&](const std::optional<Layout>& rows) {
    return run_loss(MeanSquaredError{}, y, numbers, DType::f32, y.shape, state_of(5), true, rows);
  };
  same(of_values({}), of_values(Layout::row_major({6, stride})));
}

TEST_CASE(
    "a class for each token: the rows of (N, T, K) are those of (N T, K), and padding is whole samples") {
  const std::int64_t classes = GENERATE(7, 1200);
  const Values flat = random_values({6, classes}, 16);
  const std::vector<std::int64_t> targets{0, -100, 5, 1, 2, 3};
  const Values sequences{{2, 3, classes}, flat.data};
  for (const std::int32_t valid : {1, 2}) {
    const Outcome got =
        run_loss(SoftmaxCrossEntropy{0.1F}, sequences, targets, DType::i64, {2, 3}, state_of(valid));
    const Outcome rows =
        run_loss(SoftmaxCrossEntropy{0.1F}, flat, targets, DType::i64, {6}, state_of(3 * valid));
    CHECK(got.control.targets == static_cast<float>(3 * valid - 1));
    CHECK(std::memcmp(&got.control, &rows.control, sizeof(ControlBlock)) == 0);
    CHECK(got.gradient == rows.gradient);
  }
}

TEST_CASE("a loss refuses targets of another shape than its predictions") {
  const auto refused = [](const Shape& predictions, const Shape& targets) {
    try {
      SoftmaxCrossEntropy{}.infer(
          std::vector<TensorType>{{DType::f32, predictions}, {DType::i64, targets}, step_state_type()});
    } catch (const std::exception&) {
      return true;
    }
    return false;
  };
  CHECK_FALSE(refused({2, 3, 5}, {2, 3}));
  CHECK_FALSE(refused({2, 5}, {2}));
  CHECK(refused({2, 3, 5}, {6}));
  CHECK(refused({2, 3, 5}, {2}));
  CHECK(refused({2, 3, 4, 5}, {2, 3, 4}));
}

TEST_CASE("mean squared error of sequences is the mean over all numbers of a sample") {
  const Values y = random_values({3, 4, 5}, 17);
  const Values target = random_values({3, 4, 5}, 18);
  const std::vector<float> targets(target.data.begin(), target.data.end());
  const Outcome got = run_loss(MeanSquaredError{}, y, targets, DType::f32, y.shape, state_of(2));
  double loss = 0;
  for (std::size_t i = 0; i < 40; ++i) loss += std::pow(y.data[i] - target.data[i], 2) / 20;
  CHECK(got.control.loss == Approx(0.25 * loss));
  CHECK(got.gradient[3] == Approx(0.25 * 2 * (y.data[3] - target.data[3]) / 20));
  CHECK(got.gradient[41] == 0);
}
