#include "tests/unit/kernels/instruction_sets.h"

#include <cmath>
#include <iterator>

#include "kernels/base/half.h"
#include "kernels/dropout.h"
#include "kernels/gradient_norm.h"
#include "kernels/linear.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"

namespace lockstep::tests {
namespace {

using namespace kernels;

constexpr std::int64_t count = 1037;

void run_pointwise(const Loops& loops, PointwiseFunction function, PointwisePart part,
                   const std::vector<const float*>& in, float* out) {
  PointwiseRun run{.in = {}, .in_stride = {}, .out = {out}, .n = count, .dtype = DType::f32};
  for (std::size_t i = 0; i < in.size(); ++i) {
    run.in[i] = in[i];
    run.in_stride[i] = 1;
  }
  loops(Pointwise::single(function, part), run);
}

/// What pointwise functions, gradient norms and updates compute.
std::vector<float> exact_results(const Loops& run) {
  const std::vector<float> a = numbers(count, 1);
  const std::vector<float> b = numbers(count, 2);
  std::vector<float> all;
  std::vector<float> out(count);
  const auto keep = [&] { all.insert(all.end(), out.begin(), out.end()); };
  const auto keep_function = [&](PointwiseFunction function, std::initializer_list<PointwisePart> parts) {
    for (const PointwisePart part : parts) {
      run_pointwise(run, function, part, {a.data(), b.data(), a.data()}, out.data());
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
  std::vector<float> halves(count);  // of which the first half holds bf16
  const auto keep_halves = [&] {
    widen_in_place(halves);
    all.insert(all.end(), halves.begin(), halves.end());
  };
  run(AdamUpdate{.weight_decay = 0.01}, state, b.data(), out.data(), first.data(), second.data(), nullptr,
      halves.data(), count);
  keep();
  keep_halves();
  run(AdamUpdate{.beta1 = 0.25}, state, b.data(), out.data(), first.data(), second.data(), nullptr, nullptr,
      count);
  keep();
  std::vector<float> greatest = numbers(count, 5);
  run(AdamUpdate{.amsgrad = true, .clip_value = 2}, state, b.data(), out.data(), first.data(), second.data(),
      greatest.data(), nullptr, count);
  keep();
  run(SgdUpdate{.momentum = 0.9, .nesterov = true}, state, b.data(), out.data(), first.data(), nullptr,
      count);
  keep();
  run(SgdUpdate{}, state, b.data(), out.data(), nullptr, halves.data(), count);
  keep();
  keep_halves();
  return all;
}

std::vector<float> dropped(const Loops& run) {
  const Dropout dropout{.p = 0.3, .stream = 1};
  const DropoutRun part{.random = dropout.random({.seed = 5, .global_step = 2}),
                        .sample = 3,
                        .first = 5,
                        .n = count,
                        .dtype = DType::f32};
  const std::vector<float> x = numbers(count, 1);
  std::vector<float> y(count);
  run(dropout, part, static_cast<const void*>(x.data()), static_cast<void*>(y.data()));
  return y;
}

}  // namespace

TEST_CASE("all instruction sets compute functions, updates and random words to the baseline's bits") {
  check_same_bits(exact_results);
  check_same_bits(dropped);
}

TEST_CASE("the widest instruction set is taken") {
  CHECK(simd::has_amx() == (simd::instruction_sets().size() == 5));
  CHECK(simd::best<Linear>() == simd::kernel<Linear>(simd::instruction_sets().size() - 1));
}

}  // namespace lockstep::tests
