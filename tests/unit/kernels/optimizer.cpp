#include "kernels/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/weight_average.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

constexpr int steps = 20;
constexpr float rate = 0.125F;

/// A parameter and its state after 20 steps with gradients that change from step to step.
struct Slices {
  std::vector<float> parameter;
  std::vector<float> first;
  std::vector<float> second;
};

float gradient_at(std::size_t i, int step) {
  return static_cast<float>(static_cast<int>((i * 37 + static_cast<std::size_t>(step) * 101) % 255) - 127) /
         128.0F;
}

std::vector<float> gradients_at(int step) {
  const auto count = static_cast<std::size_t>(many_elements());
  std::vector<float> gradients(count);
  for (std::size_t i = 0; i < count; ++i) gradients[i] = gradient_at(i, step);
  return gradients;
}

StepState state_at(int step) {
  StepState state;
  state.step = step;
  state.learning_rate = rate;
  state.bias_correction1 = 1 - std::pow(0.9, step);
  state.bias_correction2_sqrt = std::sqrt(1 - std::pow(0.999, step));
  return state;
}

template <class Spec>
Slices run_steps(const Spec& spec, std::size_t states, std::uint32_t skip = 0, float scale = 1) {
  const auto count = static_cast<std::size_t>(many_elements());
  const TensorDesc slice{DType::f32, {many_elements()}, {}};
  KernelIo io{{slice, {DType::u8, {sizeof(StepState)}, {}}}, std::vector<TensorDesc>(1 + states, slice)};
  const auto kernel = kernel_for(device(), spec, io);
  const auto gradient = device().allocate(count * sizeof(float));
  const auto state = device().allocate(sizeof(StepState));
  const auto parameter = upload(gradients_at(77));
  const auto first = device().allocate(count * sizeof(float));
  const auto second = device().allocate(count * sizeof(float));
  const auto greatest = device().allocate(count * sizeof(float));
  std::vector<void*> addresses{gradient->data(), state->data(),  parameter->data(),
                               first->data(),    second->data(), greatest->data()};
  addresses.resize(3 + states);
  const auto bound = kernel->bind(addresses, nullptr);
  const auto stream = device().make_stream();
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> new_gradient = gradients_at(step);
    for (float& g : new_gradient) g /= scale;
    StepState new_state = state_at(step);
    new_state.gradient_scale = scale;
    new_state.skip_update = skip;
    device().copy_to_device(gradient->data(), new_gradient.data(), gradient->bytes(), *stream);
    device().copy_to_device(state->data(), &new_state, sizeof(new_state), *stream);
    bound->launch(*stream);
    stream->synchronize();
  }
  return {download<float>(*parameter), download<float>(*first), download<float>(*second)};
}

/// Output `watched`, the same number in each element, behind an update by each of `values`.
template <class Spec>
float output_after(const Spec& spec, std::size_t outputs, std::size_t watched,
                   const std::vector<float>& values) {
  constexpr std::int64_t count = 37;
  const TensorDesc slice{DType::f32, {count}, {}};
  const TensorDesc step_state{DType::u8, {sizeof(StepState)}, {}};
  const auto kernel = kernel_for(device(), spec, {{slice, step_state}, std::vector(outputs, slice)});
  const auto stream = device().make_stream();
  std::vector<std::unique_ptr<Memory>> updated;
  for (std::size_t i = 0; i < outputs; ++i) updated.push_back(upload(std::vector<float>(count)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto in = upload(std::vector<float>(count, values[i]));
    const auto state = upload(std::vector<StepState>{state_at(static_cast<int>(i) + 1)});
    std::vector<void*> addresses{in->data(), state->data()};
    for (const auto& memory : updated) addresses.push_back(memory->data());
    kernel->bind(addresses, nullptr)->launch(*stream);
    stream->synchronize();
  }
  const std::vector<float> got = download<float>(*updated[watched]);
  CHECK(std::ranges::count(got, got[0]) == count);
  return got[0];
}

/// torch.optim.SGD as its documentation writes it.
double sgd_reference(const SgdUpdate& spec, std::size_t i) {
  double p = static_cast<double>(gradient_at(i, 77));
  double buffer = 0;
  for (int step = 1; step <= steps; ++step) {
    double g = static_cast<double>(gradient_at(i, step)) + spec.weight_decay * p;
    if (spec.momentum != 0) {
      buffer = step == 1 ? g : spec.momentum * buffer + (1 - spec.dampening) * g;
      g = spec.nesterov ? g + spec.momentum * buffer : buffer;
    }
    p -= static_cast<double>(rate) * g;
  }
  return p;
}

/// torch.optim.Adam and AdamW as their documentation writes them.
double adam_reference(const AdamUpdate& spec, std::size_t i) {
  double p = static_cast<double>(gradient_at(i, 77));
  double m = 0;
  double v = 0;
  double greatest = 0;
  for (int step = 1; step <= steps; ++step) {
    double g = static_cast<double>(gradient_at(i, step));
    if (spec.decoupled) {
      p -= static_cast<double>(rate) * spec.weight_decay * p;
    } else {
      g += spec.weight_decay * p;
    }
    m = spec.beta1 * m + (1 - spec.beta1) * g;
    v = spec.beta2 * v + (1 - spec.beta2) * g * g;
    greatest = spec.amsgrad ? std::max(greatest, v) : v;
    const double corrected = std::sqrt(greatest) / std::sqrt(1 - std::pow(0.999, step));  // StepState's
    p -= static_cast<double>(rate) / (1 - std::pow(spec.beta1, step)) * m / (corrected + spec.epsilon);
  }
  return p;
}

/// Twenty roundings of numbers up to about 4; a weak momentum's sum makes them a little larger.
constexpr double tolerance = 2e-5;

}  // namespace

TEST_CASE("sgd follows PyTorch's formula over 20 steps") {
  for (const SgdUpdate& spec : {SgdUpdate{}, SgdUpdate{.weight_decay = 0.1}, SgdUpdate{.momentum = 0.9},
                                SgdUpdate{.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01},
                                SgdUpdate{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}) {
    const Slices got = run_steps(spec, spec.momentum != 0 ? 1 : 0);
    for (std::size_t i = 0; i < got.parameter.size(); i += 41) {
      const double wanted = sgd_reference(spec, i);
      REQUIRE(static_cast<double>(got.parameter[i]) == Approx(wanted).margin(tolerance));
    }
  }
}

TEST_CASE("adam and adamw follow PyTorch's formula over 20 steps") {
  for (const AdamUpdate& spec :
       {AdamUpdate{}, AdamUpdate{.weight_decay = 0.1}, AdamUpdate{.weight_decay = 0.1, .decoupled = true},
        AdamUpdate{.epsilon = 1e-3}, AdamUpdate{.beta2 = 0.5, .epsilon = 1e-2, .amsgrad = true}}) {
    const Slices got = run_steps(spec, spec.amsgrad ? 3 : 2);
    for (std::size_t i = 0; i < got.parameter.size(); i += 41) {
      REQUIRE(static_cast<double>(got.parameter[i]) == Approx(adam_reference(spec, i)).margin(tolerance));
    }
  }
}

TEST_CASE("averages that keep nothing of before are the new number to the bit") {
  const std::vector<float> values{1e4F, 1e-4F};
  CHECK(output_after(AdamUpdate{.beta1 = 0}, 3, AdamUpdate::exp_avg, values) == values[1]);
  CHECK(output_after(WeightAverage{.decay = 0}, 1, WeightAverage::average, values) == values[1]);
}

TEST_CASE("gradients are multiplied by StepState's scale before anything else") {
  constexpr float scale = 0.25F;  // a power of two: the same bits
  const SgdUpdate decay{.momentum = 0.9, .weight_decay = 0.01};
  CHECK(run_steps(decay, 1, 0, scale).parameter == run_steps(decay, 1).parameter);
  CHECK(run_steps(SgdUpdate{}, 0, 0, scale).parameter == run_steps(SgdUpdate{}, 0).parameter);
  const AdamUpdate adam{.weight_decay = 0.1};
  const Slices scaled = run_steps(adam, 2, 0, scale);
  const Slices plain = run_steps(adam, 2);
  CHECK(scaled.parameter == plain.parameter);
  CHECK(scaled.second == plain.second);
}

TEST_CASE("gradients are clipped to their greatest value before they are scaled, and a NaN stays") {
  const auto one_step = [](const SgdUpdate& spec, float scale) {
    const std::vector<float> values{-2, -0.5F, 0, 0.25F, 0.5F, std::nanf("")};
    const auto gradient = upload(values);
    StepState in_force = state_at(1);
    in_force.gradient_scale = scale;
    const auto state = upload(std::vector<StepState>{in_force});
    const auto parameter = upload(std::vector<float>(values.size()));
    const TensorDesc slice{DType::f32, {static_cast<std::int64_t>(values.size())}, {}};
    const std::array<void*, 3> addresses{gradient->data(), state->data(), parameter->data()};
    const auto stream = device().make_stream();
    kernel_for(device(), spec, {{slice, {DType::u8, {sizeof(StepState)}, {}}}, {slice}})
        ->bind(addresses, nullptr)
        ->launch(*stream);
    stream->synchronize();
    return download<float>(*parameter);
  };
  const std::vector<float> got = one_step({.clip_value = 0.25}, 0.5F);
  const std::vector<float> wanted{0.25F, 0.25F, 0, -0.25F, -0.25F};  // times -rate / 2, a power of two
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == wanted[i] * rate / 2);
  CHECK(std::isnan(got[5]));
}

TEST_CASE("weight decay ends where it is told, the rest is as without") {
  const auto check = [](auto spec, std::size_t states) {
    const std::vector<float> everywhere = run_steps(spec, states).parameter;
    spec.decayed = 4 * (many_elements() / 8);
    const std::vector<float> half = run_steps(spec, states).parameter;
    spec.weight_decay = 0;
    const std::vector<float> nowhere = run_steps(spec, states).parameter;
    const auto border = static_cast<std::ptrdiff_t>(spec.decayed);
    CHECK(std::equal(half.begin(), half.begin() + border, everywhere.begin()));
    CHECK(std::equal(half.begin() + border, half.end(), nowhere.begin() + border));
    CHECK(everywhere != nowhere);
  };
  check(SgdUpdate{.momentum = 0.9, .weight_decay = 0.125}, 1);
  check(AdamUpdate{.weight_decay = 0.125}, 2);
  check(AdamUpdate{.weight_decay = 0.125, .decoupled = true}, 2);
}

TEST_CASE("a skipped update changes nothing") {
  const Slices got = run_steps(AdamUpdate{}, 2, 1);
  for (std::size_t i = 0; i < got.parameter.size(); ++i) {
    REQUIRE(got.parameter[i] == gradient_at(i, 77));
    REQUIRE(got.first[i] == 0);
  }
}
