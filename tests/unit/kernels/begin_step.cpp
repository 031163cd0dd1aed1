#include "kernels/begin_step.h"

#include <array>
#include <cmath>
#include <cstring>

#include "kernels/end_step.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

struct Begun {
  StepState state;
  ControlBlock control;
};

Begun begin(const BeginStep& spec, const StepInput& input, const StepState& before,
            const ControlBlock& sums = {}) {
  const auto from = device().allocate_host(sizeof(StepInput));
  std::memcpy(from->data(), &input, sizeof input);
  const auto state = upload(std::vector<StepState>{before});
  const auto control = upload(std::vector<ControlBlock>{sums});
  const std::array<void*, 3> addresses{from->data(), state->data(), control->data()};
  const auto bytes = [](TensorType type) { return TensorDesc{type.dtype, type.shape, {}}; };
  const KernelIo io{{bytes(step_input_type())}, {bytes(step_state_type()), bytes(control_type())}};
  const auto stream = device().make_stream();
  kernel_for(device(), spec, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  return {download<StepState>(*state).at(0), download<ControlBlock>(*control).at(0)};
}

}  // namespace

TEST_CASE("a step begins with what the host says, and with the count of targets of the step before") {
  const float given_scale = GENERATE(0.0F, 0.25F);
  const StepInput input{.state = {.learning_rate = 0.5F, .loss_scale = given_scale, .seed = 11},
                        .control = {.next_targets = 48, .stop_requests = 1}};
  const auto [state, control] = begin({}, input, {.gradient_scale = 0.5F},
                                      {.loss = 2.5F, .correct = 3, .targets = 8, .next_targets = 12});
  CHECK(state.learning_rate == 0.5F);
  CHECK(state.seed == 11);
  CHECK(state.gradient_scale == 1);
  CHECK(state.loss_scale == (given_scale == 0 ? static_cast<float>(1.0 / 12) : given_scale));
  CHECK(control.loss == 0);
  CHECK(control.targets == 0);
  CHECK(control.next_targets == 48);
  CHECK(control.stop_requests == 1);
}

TEST_CASE("a step ends with its control block in the host's memory") {
  const auto control =
      upload(std::vector<ControlBlock>{{.loss = 2.5F, .correct = 3, .samples = 8, .reserved = {0, 7}}});
  const auto result = device().allocate_host(sizeof(ControlBlock));
  const std::array<void*, 2> addresses{control->data(), result->data()};
  const TensorDesc block{control_type().dtype, control_type().shape, {}};
  const auto stream = device().make_stream();
  kernel_for(device(), EndStep{}, {{block}, {block}})->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  ControlBlock read;
  std::memcpy(&read, result->data(), sizeof read);
  CHECK(read.loss == 2.5F);
  CHECK(read.correct == 3);
  CHECK(read.samples == 8);
  CHECK(read.reserved[1] == 7);
}

TEST_CASE("a step without targets has a finite scale, so its gradients of zero stay zero") {
  const auto scale_behind = [](float targets) {
    return begin({}, {.state = {.loss_scale = 0}, .control = {}}, {}, {.next_targets = targets})
        .state.loss_scale;
  };
  CHECK(scale_behind(0) == 1);
  CHECK(scale_behind(1) == 1);
  CHECK(scale_behind(4) == 0.25F);
  CHECK(loss_scale_for(0) == 1);
  CHECK(loss_scale_for(8) == 0.125F);
}

TEST_CASE("steps count the updates that were applied: one that was skipped does not, evaluation has none") {
  const BeginStep training{.beta1 = 0.9, .beta2 = 0.999};
  StepState state = begin(training, {}, {}).state;
  CHECK(state.step == 1);
  state = begin(training, {}, state).state;
  CHECK(state.step == 2);
  state.skip_update = 1;
  CHECK(state.applied_updates() == 1);
  const StepState next = begin(training, {}, state).state;
  CHECK(next.step == 2);
  CHECK(next.skip_update == 0);
  const StepState evaluation = begin({.updates = 0}, {}, state).state;
  CHECK(evaluation.applied_updates() == 1);
  CHECK(begin(training, {}, evaluation).state.step == 2);
}

TEST_CASE("a later micro-batch leaves its step's state and sums, but for what is its own") {
  const StepInput input{.state = {.learning_rate = 1, .loss_scale = 1, .valid_samples = 3, .seed = 12},
                        .control = {.next_targets = 48, .stop_requests = 1}};
  const StepState before{
      .step = 7, .learning_rate = 0.5, .loss_scale = 0.25F, .valid_samples = 8, .seed = 11};
  const auto [state, control] =
      begin({.continues = true}, input, before, {.loss = 2.5F, .correct = 3, .targets = 8, .not_finite = 1});
  CHECK(state.step == 7);
  CHECK(state.learning_rate == 0.5);
  CHECK(state.loss_scale == 0.25F);
  CHECK(state.seed == 11);
  CHECK(state.valid_samples == 3);
  CHECK(control.loss == 2.5F);
  CHECK(control.correct == 3);
  CHECK(control.targets == 8);
  CHECK(control.not_finite == 1);
  CHECK(control.next_targets == 48);
  CHECK(control.stop_requests == 1);
}

TEST_CASE("GradScaler's scale begins as the step says, and then stays as the device left it") {
  const BeginStep scaled{.initial_scale = 65536};
  const StepState first = begin(scaled, {}, {.scaler_scale = 0}).state;
  CHECK(first.scaler_scale == 65536);
  CHECK(first.carried_scale == 65536);
  CHECK(begin({}, {}, {.scaler_scale = 0}).state.scaler_scale == 1);
  const StepState later = begin(scaled, {}, {.scaler_scale = 512, .growth_tracker = 7}).state;
  CHECK(later.scaler_scale == 512);
  CHECK(later.carried_scale == 512);
  CHECK(later.growth_tracker == 7);
}

TEST_CASE("bias corrections are PyTorch's, made in double of the count of updates") {
  const BeginStep spec{.beta1 = 0.9, .beta2 = 0.999};
  // CUDA's pow is off by two units of its result at most (CUDA C++ Programming Guide, table of double's
  // functions).
  constexpr double error = 0x1p-51;
  for (const std::int64_t step : {1, 2, 10, 1000, 100000}) {
    const auto power = static_cast<double>(step);
    const StepState state = begin(spec, {}, {.step = step - 1}).state;
    const double correction1 = 1 - std::pow(0.9, power);
    const double square2 = 1 - std::pow(0.999, power);
    if (!is_real_gpu()) {
      CHECK(state.bias_correction1 == correction1);
      CHECK(state.bias_correction2_sqrt == std::sqrt(square2));
      continue;
    }
    CHECK(std::abs(state.bias_correction1 - correction1) <= error);
    // Squared, for the root of what is near 0 is far off.
    CHECK(std::abs(std::pow(state.bias_correction2_sqrt, 2) - square2) <= error + 0x1p-52 * square2);
  }
  const StepState without = begin({}, {}, {}).state;
  CHECK(without.bias_correction1 == 1);
  CHECK(without.bias_correction2_sqrt == 1);
}
