#include "kernels/begin_step.h"

#include <array>

#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

TEST_CASE("a step begins with what the host says, and with the count of the step before") {
  const float given_scale = GENERATE(0.0F, 0.25F);
  const StepInput input{.state = {.step = 7, .learning_rate = 0.5F, .loss_scale = given_scale, .seed = 11},
                        .control = {.next_targets = 48, .stop_requests = 1}};
  const ControlBlock last{.loss = 2.5F, .correct = 3, .targets = 8, .next_targets = 12};
  const auto from = upload(std::vector<StepInput>{input});
  const auto state = device().allocate(sizeof(StepState));
  const auto control = upload(std::vector<ControlBlock>{last});
  const std::array<void*, 3> addresses{from->data(), state->data(), control->data()};
  const auto bytes = [](TensorType type) { return TensorDesc{type.dtype, type.shape, {}}; };
  const KernelIo io{{bytes({DType::u8, {sizeof(StepInput)}})},
                    {bytes(step_state_type()), bytes(control_type())}};
  const auto stream = device().make_stream();
  kernel_for(device(), BeginStep{}, io)->bind(addresses, nullptr)->launch(*stream);
  stream->synchronize();
  const StepState now = download<StepState>(*state).at(0);
  CHECK(now.step == 7);
  CHECK(now.learning_rate == 0.5F);
  CHECK(now.seed == 11);
  CHECK(now.loss_scale == (given_scale == 0 ? static_cast<float>(1.0 / 12) : given_scale));
  const ControlBlock sums = download<ControlBlock>(*control).at(0);
  CHECK(sums.loss == 0);
  CHECK(sums.targets == 0);
  CHECK(sums.next_targets == 48);
  CHECK(sums.stop_requests == 1);
}
