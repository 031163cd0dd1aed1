// --allow-unused: parameters that the loss does not depend on, in a step that runs.
#include "comm/make_communicator.h"
#include "runtime/step/executor.h"
#include "runtime/weights/parameter_io.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/small_plans.h"

namespace lockstep::runtime {
namespace {

model::Tensor with_spare(model::Tensor x) {
  conv2d(x, "spare", {.out_channels = 16, .kernel = 3});
  return linear(flatten(x), "head", 10);
}

TEST_CASE("a parameter that does not reach the loss is changed by weight decay alone") {
  const model::OptimizerOptions optimizer{
      .kind = model::OptimizerKind::sgd, .learning_rate = 0.5, .weight_decay = 0.25};
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const Plan plan = make_plan(testing::classifier(with_spare), testing::images,
                              {.key = {.batch = 4}, .optimizer = optimizer}, *device, {.allow_unused = true});
  ReplicaMemory memory(*device, *communicator, std::span(&plan, 1));
  Executor executor(*device, *communicator, memory);
  ParameterIO replica(*device, plan, memory);
  replica.initialise(7);
  // Zeros must be written: memory that begins with zeros would hide that.
  for (const char* name : {"spare.weight", "spare.bias"}) {
    *static_cast<float*>(memory.gradient(name)) = 1e30F;
  }
  const std::vector<NamedTensor> before = replica.parameters();
  memory.host_input(0) = {.state = {.learning_rate = 0.5F, .loss_scale = 0.25F, .valid_samples = 4}};
  executor.run(plan, 0);
  executor.run(plan, 0);

  const std::vector<NamedTensor> after = replica.parameters();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].name.starts_with("spare.")) continue;
    INFO(before[i].name);
    for (std::size_t at = 0; at < before[i].values.size(); ++at) {
      CHECK(after[i].values[at] == Approx(before[i].values[at] * 0.875F * 0.875F));
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
