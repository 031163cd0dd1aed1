#include "kernels/gradient_norm.h"

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

Outcome clip(const std::vector<float>& gradients, double max_norm) {
  const KernelIo io{{{DType::f32, {static_cast<std::int64_t>(gradients.size())}, {}}},
                    {{DType::u8, {sizeof(StepState)}, {}}, {DType::u8, {sizeof(ControlBlock)}, {}}}};
  const auto kernel = kernel_for(device(), GradientNorm{.max_norm = max_norm}, io);
  const auto gradient = upload(gradients);
  const auto state = upload(std::vector<StepState>(1));
  const auto control = upload(std::vector<ControlBlock>(1));
  const auto workspace = device().allocate(kernel->workspace_bytes());
  const std::array<void*, 3> addresses{gradient->data(), state->data(), control->data()};
  const auto stream = device().make_stream();
  kernel->bind(addresses, workspace->data())->launch(*stream);
  stream->synchronize();
  return {download<StepState>(*state).at(0), download<ControlBlock>(*control).at(0)};
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
