#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/begin_step.h"
#include "tests/parity/golden.h"
#include "tests/parity/kernel_machine.h"
#include "tests/support/catch.h"

namespace lockstep::parity {
namespace {

using kernels::LearningRateSchedule;
using nlohmann::json;

constexpr std::array<std::string_view, 4> kinds{"constant", "step", "cosine", "linear"};

LearningRateSchedule schedule_of(const json& golden) {
  const auto kind = std::ranges::find(kinds, golden.at("kind").get<std::string>()) - kinds.begin();
  LearningRateSchedule schedule{.kind = static_cast<LearningRateSchedule::Kind>(kind)};
  schedule.least = golden.value("least", 0.0);
  schedule.gamma = golden.value("gamma", schedule.gamma);
  schedule.step_epochs = golden.value("step_epochs", schedule.step_epochs);
  schedule.warmup_steps = golden.value("warmup_steps", schedule.warmup_steps);
  schedule.steps = golden.at("steps");
  return schedule;
}

}  // namespace

TEST_CASE("rates are PyTorch's in every step, also when updates were skipped") {
  for (const json& golden : load_cases("schedules")) {
    INFO(golden.at("name").get<std::string>());
    const kernels::BeginStep begin{.schedule = schedule_of(golden)};
    const std::int64_t steps_per_epoch = golden.at("steps_per_epoch");
    KernelMachine machine(LayoutChoice::plain);
    const auto rates = golden.at("rates").get<std::vector<double>>();
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const auto applied = static_cast<std::int64_t>(step);
      const kernels::StepInput input{
          .state = {.learning_rate = golden.at("lr"), .epoch = applied / steps_per_epoch},
          .control = {.learning_rate = 1}};
      const HostTensor from_host = HostTensor::of_struct(input);
      // Of the steps before, one more was begun than was applied.
      std::vector<HostTensor> begun{
          HostTensor::of_struct(kernels::StepState{.step = applied + 1, .skip_update = 1}),
          HostTensor::of_struct(kernels::ControlBlock{})};
      machine.run(begin, std::span(&from_host, 1), begun);
      // PyTorch's recursion rounds in every step: at most an ulp each, of 24.
      CHECK(begun[0].as<kernels::StepState>().learning_rate ==
            Approx(rates[step]).epsilon(1e-14).margin(1e-17));
      CHECK(begun[1].as<kernels::ControlBlock>().learning_rate == Approx(rates[step]).epsilon(1e-7));
    }
  }
}

}  // namespace lockstep::parity
