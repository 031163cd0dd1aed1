#include "runtime/step/executor.h"

#include <algorithm>
#include <cmath>

#include "comm/make_communicator.h"
#include "model/layers.h"
#include "model/zoo/zoo.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

/// The plans of a run: a full batch, a smaller one, and evaluation.
class Run {
 public:
  Run() {
    const model::ZooEntry entry = model::find_model("mlp", {});
    const model::InputSpec input = entry.wants({});
    PlanConstraints decisions;
    for (const PlanKey& key : {full, smaller, evaluation}) {
      plans_.push_back(make_plan(entry.make({}, input), input, {.key = key}, *device_, decisions));
      decisions = {.parameter_layouts = parameter_layouts(plans_[0].graph), .arena = plans_[0].arena};
    }
    memory_ = std::make_unique<ReplicaMemory>(*device_, *communicator_, plans_);
    executor_ = std::make_unique<Executor>(*device_, *communicator_, *memory_);
    replica().initialise(7);
  }

  static constexpr PlanKey full{.batch = 6};
  static constexpr PlanKey smaller{.batch = 2};
  static constexpr PlanKey evaluation{.mode = Mode::evaluate, .batch = 6};

  ParameterIO replica() { return {*device_, plans_[0], *memory_}; }
  std::string where(StepTracker::Phase phase) const {
    executor_->step_tracker()->enter(phase);
    return executor_->step_tracker()->describe();
  }

  kernels::ControlBlock step(const PlanKey& key, std::size_t slot, float loss_scale = 1) {
    memory_->host_input(slot) = {.state = {.learning_rate = 0.01F,
                                           .loss_scale = loss_scale,
                                           .valid_samples = static_cast<std::int32_t>(key.batch)},
                                 .control = {.next_targets = 4}};
    executor_->run(*std::ranges::find(plans_, key, &Plan::key), slot);
    return memory_->host_control(slot);
  }

 private:
  std::unique_ptr<kernels::Device> device_ = kernels::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> communicator_ = comm::make_communicator({}, {});
  std::vector<Plan> plans_;
  std::unique_ptr<ReplicaMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

/// The loss of a classifier of token sequences, each with its own class.
float loss_of(model::Tensor (*network)(model::Tensor tokens)) {
  constexpr int batch = 3;
  const model::InputSpec input{.shape = {5}, .num_classes = 4, .dtype = DType::i64, .vocab_size = 11};
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  std::vector<Plan> plans;
  plans.push_back(
      make_plan({.name = "test", .forward = network}, input, {.key = {.batch = batch}}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  ParameterIO(*device, plans[0], memory).initialise(7);
  for (std::int64_t i = 0; i < batch * 5; ++i) static_cast<std::int64_t*>(memory.input(0))[i] = i * 7 % 11;
  for (std::int64_t i = 0; i < batch; ++i) static_cast<std::int64_t*>(memory.target(0))[i] = i;
  memory.host_input(0).state = {.loss_scale = 1.0F / batch, .valid_samples = batch};
  executor.run(plans[0], 0);
  return memory.host_control(0).loss;
}

TEST_CASE("tokens whose dimensions change places are the same tokens") {
  const float loss =
      loss_of([](model::Tensor x) { return linear(flatten(embedding(x, "wte", 11, 8)), "fc", 4); });
  const float permuted = loss_of([](model::Tensor x) {
    return linear(flatten(permute(embedding(permute(x, {1, 0}), "wte", 11, 8), {1, 0, 2})), "fc", 4);
  });
  CHECK(std::isfinite(loss));
  CHECK(permuted == Approx(loss));
}

TEST_CASE("plans are bound at their first use, and each runs on the batch of its key") {
  Run run;
  CHECK(run.step(Run::full, 1).targets == 6);
  CHECK(run.step(Run::smaller, 0).targets == 2);
  CHECK(run.step(Run::evaluation, 1).targets == 6);
  CHECK(run.step(Run::full, 0).targets == 6);
}

TEST_CASE("an evaluation between two steps changes neither weights nor the input of the next step") {
  Run one;
  Run other;
  one.step(Run::full, 0);
  other.step(Run::full, 0);
  const std::string weights = one.replica().fingerprint();
  one.step(Run::evaluation, 0);
  CHECK(one.replica().fingerprint() == weights);
  CHECK(one.replica().applied_updates() == 1);
  one.step(Run::full, 1, 0);  // scaled by the targets that the step before has announced
  other.step(Run::full, 1, 0);
  CHECK(one.replica().fingerprint() == other.replica().fingerprint());
  CHECK(one.replica().applied_updates() == 2);
}

TEST_CASE("the end of each step is noted, of the exchanges that compute waits for too, but not of views") {
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const model::ZooEntry entry = model::find_model("mlp", {});
  const model::InputSpec input = entry.wants({});
  const Plan plan = make_plan(entry.make({}, input), input,
                              {.key = {.batch = 6}, .schedule = {.overlap = false}}, *device, {});
  ReplicaMemory memory(*device, *communicator, std::span(&plan, 1));
  Executor executor(*device, *communicator, memory);
  std::vector<Clock::time_point> ends(plan.steps.size());
  executor.note_step_ends(ends);
  memory.host_input(0) = {.state = {.valid_samples = 6}, .control = {.next_targets = 6}};
  executor.run(plan, 0);
  CHECK(std::ranges::count(plan.steps, Step::Kind::all_reduce_inline, &Step::kind) > 0);
  for (std::size_t at = 0; at < plan.steps.size(); ++at) {
    if (plan.steps[at].queued) continue;
    INFO("step " << at);
    const Launch* const launch = plan.launch_of(plan.steps[at]);
    const bool is_view = launch != nullptr && launch->kernel == nullptr;
    CHECK((ends[at] == Clock::time_point()) == is_view);
  }
}

TEST_CASE("where the weights alone are kept, no memory of a large batch is left") {
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const model::ZooEntry entry = model::find_model("mlp", {});
  const model::InputSpec input = entry.wants({});
  const Plan plan = make_plan(entry.make({}, input), input, {.key = {.batch = 512}}, *device, {});
  ReplicaMemory memory(*device, *communicator, std::span(&plan, 1));
  ParameterIO replica(*device, plan, memory);
  replica.initialise(7);
  const std::string weights = replica.fingerprint();
  memory.keep_weights();
  CHECK(memory.bytes() < plan.arena.parameter_bytes() + plan.bytes_of(model::Role::input) / 100);
  CHECK(replica.fingerprint() == weights);
}

TEST_CASE("the step tracker describes the last step that was walked") {
  Run run;
  run.step(Run::full, 0);
  CHECK(run.where(StepTracker::Phase::computing) == "step 0, end step");
}

}  // namespace
}  // namespace lockstep::runtime
