#include "kernels/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Outcome {
  StepState state;
  ControlBlock control;
};

Outcome norm_step(const std::vector<float>& gradients, const GradientNorm& spec, const StepState& before = {},
                  DType dtype = DType::f32) {
  const Shape shape{static_cast<std::int64_t>(gradients.size())};
  const KernelIo io{{{dtype, shape, {}}},
                    {{DType::u8, {sizeof(StepState)}, {}}, {DType::u8, {sizeof(ControlBlock)}, {}}}};
  const auto kernel = kernel_for(device(), spec, io);
  const Values values{shape, {gradients.begin(), gradients.end()}};
  const auto gradient = pack(values, Layout::row_major(shape), dtype);
  const auto state = upload(std::vector<StepState>{before});
  const auto control = upload(std::vector<ControlBlock>(1));
  const auto workspace = device().allocate(kernel->workspace_bytes());
  const std::array<void*, 3> addresses{gradient->data(), state->data(), control->data()};
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
  return {download<StepState>(*state).at(0), download<ControlBlock>(*control).at(0)};
}

Outcome clip(const std::vector<float>& gradients, double max_norm, double clip_value = not_clipped) {
  return norm_step(gradients, {.max_norm = max_norm, .clip_value = clip_value});
}

/// Of very different sizes, so that sums in float would be off.
std::vector<float> gradients_of(std::size_t count) {
  std::vector<float> gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto small = static_cast<float>(static_cast<int>(i * 37 % 255) - 127);
    gradients[i] = i % 1000 == 3 ? 64 * small : small / 128;
  }
  return gradients;
}

double norm_of(const std::vector<float>& gradients) {
  double squares = 0;
  for (const float g : gradients) squares += static_cast<double>(g) * static_cast<double>(g);
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("the norm and factor are PyTorch's, whatever the size") {
  const std::size_t count = GENERATE(1U, 3U, 17U, 8191U, 8192U, 8195U, 70003U, 1000000U);
  CAPTURE(count);
  const std::vector<float> gradients = gradients_of(count);
  const double norm = norm_of(gradients);
  const Outcome clipped = clip(gradients, norm / 3);
  CHECK(clipped.control.gradient_norm == Approx(norm).epsilon(1e-7));
  CHECK(clipped.state.gradient_scale == Approx(norm / 3 / (norm + 1e-6)).epsilon(1e-7));
  CHECK(clipped.state.skip_update == 0);
  CHECK(clipped.control.not_finite == 0);
  CHECK(clip(gradients, norm * 2).state.gradient_scale == 1);
}

TEST_CASE("the norm is that of the clipped values, which an infinity becomes and a NaN does not") {
  std::vector<float> gradients = gradients_of(70003);
  std::vector<float> clipped = gradients;
  for (float& g : clipped) g = std::clamp(g, -0.5F, 0.5F);
  CHECK(clip(gradients, 1, 0.5).control.gradient_norm == Approx(norm_of(clipped)).epsilon(1e-7));
  gradients[5] = std::numeric_limits<float>::infinity();
  CHECK(clip(gradients, 1, 0.5).state.skip_update == 0);
  gradients[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(clip(gradients, 1, 0.5).state.skip_update == 1);
}

TEST_CASE("a norm has the same bits in every run") {
  const std::vector<float> gradients = gradients_of(300001);
  const Outcome first = clip(gradients, 1);
  for (int run = 0; run < 10; ++run) {
    const Outcome again = clip(gradients, 1);
    CHECK(again.control.gradient_norm == first.control.gradient_norm);
    CHECK(again.state.gradient_scale == first.state.gradient_scale);
  }
}

TEST_CASE("gradients of zero stay; huge ones are no infinity") {
  CHECK(clip(std::vector<float>(100), 0.5).state.gradient_scale == 1);
  const Outcome huge = clip(std::vector<float>(10000, 1e30F), 1);
  CHECK(huge.control.gradient_norm == Approx(1e32).epsilon(1e-6));
  CHECK(huge.state.gradient_scale == Approx(1e-32).epsilon(1e-6));
  CHECK(huge.control.not_finite == 0);
}

TEST_CASE("a gradient that is not finite skips the update and is told") {
  const float bad = GENERATE(std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN());
  const std::size_t at = GENERATE(0U, 8193U, 20002U);
  std::vector<float> gradients = gradients_of(20003);
  gradients[at] = bad;
  const Outcome outcome = clip(gradients, 1);
  CHECK(outcome.state.skip_update == 1);
  CHECK(outcome.control.not_finite == 1);
}

TEST_CASE("gradients in bf16 have the norm of their values") {
  const std::vector<float> gradients(20003, 0.375F);
  const Outcome outcome = norm_step(gradients, {.max_norm = 1}, {}, DType::bf16);
  CHECK(outcome.control.gradient_norm == Approx(norm_of(gradients)).epsilon(1e-7));
}

TEST_CASE("GradScaler: finite gradients are unscaled, and the scale grows after the interval") {
  const std::vector<float> gradients = gradients_of(5003);
  const GradientNorm spec{.growth_interval = 3};
  StepState state{.scaler_scale = 1024};
  for (const std::int32_t tracker : {1, 2}) {
    const Outcome outcome = norm_step(gradients, spec, state);
    CHECK(outcome.control.gradient_norm == Approx(norm_of(gradients) / 1024).epsilon(1e-7));
    CHECK(outcome.control.scaler_scale == 1024);
    CHECK(outcome.state.gradient_scale == 1.0F / 1024);
    CHECK(outcome.state.scaler_scale == 1024);
    CHECK(outcome.state.growth_tracker == tracker);
    state = outcome.state;
  }
  const Outcome grown = norm_step(gradients, spec, state);
  CHECK(grown.state.gradient_scale == 1.0F / 1024);
  CHECK(grown.state.scaler_scale == 2048);
  CHECK(grown.state.growth_tracker == 0);
}

TEST_CASE(
    "GradScaler: one gradient that is not finite skips the step and halves the scale, and is no error") {
  std::vector<float> gradients = gradients_of(20003);
  gradients[20002] =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  const Outcome outcome = norm_step(gradients, {.max_norm = 1, .growth_interval = 3},
                                    {.scaler_scale = 1024, .growth_tracker = 2});
  CHECK(outcome.state.skip_update == 1);
  CHECK(outcome.state.scaler_scale == 512);
  CHECK(outcome.state.growth_tracker == 0);
  CHECK(outcome.control.not_finite == 0);
}

TEST_CASE("GradScaler: clipping is by the norm of the unscaled gradients, and the greatest scale stays") {
  const std::vector<float> gradients = gradients_of(5003);
  const double norm = norm_of(gradients) / 256;
  const Outcome clipped =
      norm_step(gradients, {.max_norm = norm / 3, .growth_interval = 3}, {.scaler_scale = 256});
  CHECK(clipped.state.gradient_scale == Approx(norm / 3 / (norm + 1e-6) / 256).epsilon(1e-6));
  const Outcome greatest =
      norm_step(std::vector<float>(3), {.growth_interval = 1}, {.scaler_scale = 0x1p127F});
  CHECK(greatest.state.scaler_scale == 0x1p127F);
}

TEST_CASE("GradScaler: values are clipped as if the scale were taken off, infinities found before") {
  std::vector<float> gradients = gradients_of(5003);
  std::vector<float> clipped = gradients;
  for (float& g : clipped) g = std::clamp(g, -0.5F * 64, 0.5F * 64);
  const GradientNorm spec{.clip_value = 0.5, .growth_interval = 3};
  const StepState before{.scaler_scale = 64, .carried_scale = 64};
  CHECK(norm_step(gradients, spec, before).control.gradient_norm ==
        Approx(norm_of(clipped) / 64).epsilon(1e-7));
  gradients[5] = std::numeric_limits<float>::infinity();
  CHECK(norm_step(gradients, spec, before).state.skip_update == 1);
}
