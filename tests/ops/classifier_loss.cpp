#include "kernels/classifier.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/base/half.h"
#include "tests/ops/classifier_problem.h"

namespace lockstep::ops {
namespace {

using kernels::ClassifierLoss;
using kernels::test::device;

template <class Half>
std::vector<float> widened(const kernels::Memory& memory) {
  std::vector<float> floats;
  for (const Half half : kernels::test::download<Half>(memory)) floats.push_back(widen(half));
  return floats;
}

std::vector<float> floats(const kernels::Memory& memory, DType dtype) {
  if (dtype == DType::bf16) return widened<BFloat16>(memory);
  if (dtype == DType::f16) return widened<Float16>(memory);
  return kernels::test::download<float>(memory);
}

Outcome run(const Case& c, const Problem& p, const StepState& state, bool has_gradient = true) {
  const ClassifierLoss op{.label_smoothing = c.smoothing, .has_gradient = has_gradient, .chunk = c.chunk};
  const std::int64_t inputs = c.x[c.x.rank() - 1];
  const Shape rows = c.x.rank() == 3 ? Shape{c.x[0], c.x[1]} : Shape{c.x[0]};
  kernels::KernelIo io;
  io.inputs = {{c.dtype, c.x, {}},
               {c.dtype, {c.classes, inputs}, {}},
               {DType::i64, rows, {}},
               {DType::u8, {sizeof(StepState)}, {}}};
  if (c.bias) io.inputs.push_back({c.dtype, {c.classes}, {}});
  for (const kernels::TensorType& type : op.infer(kernels::types_of(io.inputs))) {
    io.outputs.push_back({type.dtype, type.shape, {}});
  }
  choose_layouts(device(), op, io);
  const auto pack = [&](const Values& values, std::size_t input) {
    return kernels::test::pack(values, *io.inputs[input].layout, c.dtype);
  };
  const auto kernel = kernel_for(device(), op, io);
  std::vector<std::unique_ptr<kernels::Memory>> memory;
  memory.push_back(pack(p.x, ClassifierLoss::x));
  memory.push_back(pack(p.weight, ClassifierLoss::weight));
  memory.push_back(kernels::test::upload(p.targets));
  memory.push_back(kernels::test::upload(std::vector{state}));
  if (c.bias) memory.push_back(pack(p.bias, ClassifierLoss::bias));
  const std::size_t first_output = memory.size();
  memory.push_back(kernels::test::upload(std::vector{ControlBlock{}}));
  for (std::size_t i = 1; i < io.outputs.size(); ++i) {
    // Not zero: what is not overwritten shows.
    const auto bytes = static_cast<std::size_t>(io.outputs[i].bytes());
    memory.push_back(kernels::test::upload(std::vector<std::uint8_t>(bytes, 0x3E)));
  }
  std::vector<void*> addresses;
  for (const auto& each : memory) addresses.push_back(each->data());
  // Full of NaN: what is read before it is written shows.
  const auto workspace = kernels::test::upload(std::vector<std::uint8_t>(kernel->workspace_bytes(), 0xFF));
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
  Outcome out{.control = kernels::test::download<ControlBlock>(*memory[first_output]).front(),
              .dx = {},
              .dweight = {},
              .dbias = {}};
  if (!has_gradient) return out;
  out.dx = floats(*memory[first_output + ClassifierLoss::dx], c.dtype);
  const auto without_padding = [&](std::size_t output) {
    const Values values = kernels::test::unpack(*memory[first_output + output], io.outputs[output].shape,
                                                *io.outputs[output].layout);
    return std::vector<float>(values.data.begin(), values.data.end());
  };
  out.dweight = without_padding(ClassifierLoss::dweight);
  if (c.bias) out.dbias = without_padding(ClassifierLoss::dbias);
  return out;
}

void check_near(const char* name, const std::vector<float>& got, const std::vector<float>& wanted,
                double tolerance) {
  INFO(name);
  REQUIRE(got.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - wanted[i]);
    worst = off > worst || std::isnan(off) ? off : worst;
  }
  CHECK(worst <= tolerance);
}

/// A logit errs by (I + 1) u times the sum of its terms' sizes, at most I / 2 + 1 here; a share of the
/// softmax by twice that, and by u sqrt(K) for the sum of the exponentials, whose roundings are independent.
/// What the rows' gradients, whose sizes add up to 2 at most, give dx and dweight errs alike, and by their
/// own sums: sqrt(K) u and rows u. In half types the gradient is rounded to them, and dx again: twice half a
/// unit of the last place; and in bf16, where tiles compute it, a share of the softmax before: of shares,
/// whose sum is 1, not 2 as that of the gradients, and of weights up to a half.
void check(const Case& c) {
  if (c.dtype == DType::f16 && device().is_cpu()) return;
  INFO("x " << c.x.str() << ", " << c.classes << " classes, " << name_of(c.dtype));
  const StepState state{.loss_scale = 0.25F, .valid_samples = c.valid, .scaler_scale = 2};
  const Problem problem = problem_of(c);
  const Outcome wanted = reference(c, problem, state);
  const Outcome got = run(c, problem, state);
  const double u = std::ldexp(1.0, -24);
  const auto inputs = static_cast<double>(c.x[c.x.rank() - 1]);
  const auto rows = static_cast<double>(wanted.control.targets);  // the others give nothing
  const double half = c.dtype == DType::f32 ? 0 : std::ldexp(1.0, c.dtype == DType::bf16 ? -8 : -11);
  const bool on_gpu = !device().is_cpu();
  const double of_logit = (inputs / 2 + 1) * ((inputs + 1) * u + (on_gpu ? half / 2 : 0));
  const double of_sums = 4 * std::sqrt(static_cast<double>(c.classes)) * u;
  const double scale = 0.5;  // of the gradient
  const double each = scale * 2 * (2 * of_logit + 2 * of_sums + (c.dtype == DType::bf16 ? 1.25 : 1) * half);
  check_near("dx", got.dx, wanted.dx, each);
  check_near("dweight", got.dweight, wanted.dweight, rows * (each + scale * 2 * rows * u));
  if (c.bias) check_near("dbias", got.dbias, wanted.dbias, rows * (each + scale * 2 * rows * u));
  for (const Outcome& outcome : {got, run(c, problem, state, false)}) {
    CHECK(outcome.control.loss == Approx(wanted.control.loss).epsilon(2 * (2 * of_logit + of_sums)));
    if (!on_gpu || c.dtype == DType::f32) {
      CHECK(outcome.control.correct == wanted.control.correct);
      CHECK(outcome.control.top5 == wanted.control.top5);
    }
    CHECK(outcome.control.targets == wanted.control.targets);
    CHECK(outcome.control.not_finite == 0);
  }
}

}  // namespace

TEST_CASE("classifier_loss: loss and gradients of the linear map and the cross entropy") {
  check({.x = {6, 24}});
  check({.x = {7, 5}, .classes = 1000, .bias = true});
  check({.x = {2, 3, 17}, .classes = 8193, .bias = true, .smoothing = 0.1F});
  check({.x = {3, 2, 16}, .smoothing = 0.3F, .valid = 2});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    check({.x = {2, 3, 16}, .classes = 8200, .bias = true, .smoothing = 0.1F, .dtype = dtype});
    check({.x = {64, 8}, .classes = 2048, .dtype = dtype});
  }
}

TEST_CASE("classifier_loss: several chunks of rows add up") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check({.x = {5, 14, 4}, .classes = 1100, .bias = true, .valid = 4, .dtype = dtype, .chunk = 32});
  }
}

TEST_CASE("classifier_loss: tiles of rows, inputs and classes, and classes that fill none") {
  for (const std::int64_t chunk : {0, 64}) {
    check({.x = {3, 64, 32},
           .classes = 1100,
           .bias = true,
           .smoothing = 0.1F,
           .dtype = DType::bf16,
           .chunk = chunk});
  }
  check({.x = {1088, 64}, .classes = 160, .valid = 2000, .dtype = DType::bf16, .every = 64});
  check({.x = {2, 64, 32}, .classes = 37, .bias = true, .smoothing = 0.1F, .dtype = DType::bf16});
  check({.x = {1088, 32}, .classes = 1001, .valid = 2000, .dtype = DType::bf16, .chunk = 544, .every = 16});
}

TEST_CASE("classifier_loss: few rows, whose data gradient is made by panels") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check({.x = {20, 128}, .classes = 1000, .bias = true, .valid = 18, .dtype = dtype});
    check({.x = {70, 64}, .classes = 497, .dtype = dtype, .chunk = 35});
  }
}

TEST_CASE("classifier_loss: rows in half types that are too long for a GPU's shared memory") {
  check({.x = {3, 4}, .classes = 120001, .dtype = DType::bf16});
}

TEST_CASE("classifier_loss: in half types, of equals the first is the greatest") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (dtype == DType::f16 && device().is_cpu()) continue;
    const Case c{.x = {12, 1}, .classes = 1003, .dtype = dtype};
    Problem problem = problem_of(c);  // logits are the weights themselves, in 128 steps
    for (double& x : problem.x.data) x = 1;
    std::vector<std::int64_t> order(static_cast<std::size_t>(c.classes));
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
    std::ranges::stable_sort(order, std::greater{}, [&](std::int64_t k) {
      return problem.weight.data[static_cast<std::size_t>(k)];
    });
    for (std::size_t row = 0; row < problem.targets.size(); ++row)
      problem.targets[row] = order[row < 5 ? row : 500 + row];
    const Outcome got = run(c, problem, {.loss_scale = 1, .valid_samples = 12});
    CHECK(got.control.correct == 1);
    CHECK(got.control.top5 == 5);
    CHECK(got.control.targets == 12);
  }
}

TEST_CASE(
    "classifier_loss: in half types, of equals that one thread of a GPU has the first is the greatest") {
  const DType dtype = GENERATE(DType::bf16, DType::f16);
  if (dtype == DType::f16 && device().is_cpu()) return;
  const Case c{.x = {12, 1}, .classes = 5003, .dtype = dtype};
  Problem problem = problem_of(c);
  std::ranges::fill(problem.x.data, 1);
  for (const std::size_t greatest : {500U, 503U, 500U + 4096U}) problem.weight.data[greatest] = 2;
  for (const std::int64_t target : {500, 503, 500 + 4096}) {
    std::ranges::fill(problem.targets, target);
    const Outcome got = run(c, problem, {.loss_scale = 1, .valid_samples = 12});
    CHECK(got.control.correct == (target == 500 ? 12 : 0));
    CHECK(got.control.top5 == 12);
  }
}

TEST_CASE("classifier_loss: the bias's gradient of many equal rows is not what their roundings add up to") {
  if (!device().is_cpu()) return;
  constexpr std::int64_t rows = 1 << 17;
  const Case c{.x = {rows, 1}, .classes = 60, .bias = true};
  Problem problem = problem_of(c);
  for (Values* values : {&problem.x, &problem.weight, &problem.bias}) std::ranges::fill(values->data, 0);
  std::ranges::fill(problem.targets, 0);
  const Outcome got = run(c, problem, {.loss_scale = 1, .valid_samples = rows});
  // One after another, 0.13 % more.
  for (std::size_t k = 1; k < got.dbias.size(); ++k)
    REQUIRE(got.dbias[k] == Approx(rows / 60.0).epsilon(1e-4));
}

TEST_CASE("classifier_loss: with smoothed labels, too, the gradients of a row's logits add up to zero") {
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f16);
  if (dtype == DType::f16 && device().is_cpu()) return;
  const Case c{.x = {2, 8}, .classes = 37, .bias = true, .smoothing = 0.4F, .dtype = dtype};
  const Outcome got = run(c, problem_of(c), {.loss_scale = 1, .valid_samples = 2});
  const double sum = std::accumulate(got.dbias.begin(), got.dbias.end(), 0.0);
  // Their sizes add up to 2 at most in each of the two rows; a bf16 is off by half of 2^-8 of itself.
  CHECK(std::abs(sum) <= 2 * 2 * 0x1p-8);
}

TEST_CASE("classifier_loss: a target that is no class makes the loss not a number") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c{.x = {4, 8}, .classes = 1000, .dtype = dtype};
  Problem problem = problem_of(c);
  problem.targets = {1, -1, 1000, -100};
  const Outcome got = run(c, problem, {.loss_scale = 1, .valid_samples = 4});
  CHECK(std::isnan(got.control.loss));
  CHECK(got.control.not_finite == 1);
  CHECK(got.control.targets == 3);
  for (std::size_t i = 8; i < got.dx.size(); ++i) CHECK(got.dx[i] == 0);
}

TEST_CASE("classifier_loss: numbers that are not finite show in the loss and in the gradient") {
  const DType dtype = GENERATE(DType::f32, DType::bf16);
  const Case c{.x = {2, 8}, .classes = 3000, .dtype = dtype};
  for (const double broken : {std::nan(""), static_cast<double>(INFINITY)}) {
    Problem problem = problem_of(c);
    std::ranges::fill(problem.x.data, 1);
    std::fill_n(problem.weight.data.begin() + 8 * 7, 8, 1.0);  // the greatest of what is finite
    std::ranges::fill(problem.targets, 7);
    problem.weight.data[8 * 2500] = broken;
    const Outcome got = run(c, problem, {.loss_scale = 1, .valid_samples = 2});
    CHECK(got.control.not_finite == 1);
    CHECK(got.control.correct == 0);
    CHECK(got.control.top5 == 0);
    CHECK(std::isnan(got.dx[0]));
  }
}

}  // namespace lockstep::ops
