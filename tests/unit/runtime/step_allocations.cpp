#include <utility>

#include "comm/make_communicator.h"
#include "model/zoo/zoo.h"
#include "runtime/step/executor.h"
#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

TEST_CASE("1,000 training steps allocate nothing of ours, and free all that libraries allocate in them") {
  const std::string name = GENERATE("linear", "mlp", "simplecnn");
  const double clip_grad_norm = GENERATE(0.0, 1.0);
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const model::ZooEntry entry = model::find_model(name, {});
  const model::InputSpec input = entry.wants({});
  std::vector<Plan> plans;
  plans.push_back(make_plan(entry.make({}, input), input,
                            {.key = {.batch = 16}, .clip_grad_norm = clip_grad_norm}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  for (std::size_t slot = 0; slot < batch_slot_count; ++slot) {
    memory.host_input(slot).state = {.learning_rate = 1e-3F, .valid_samples = 16};
  }
  const auto run_steps = [&](std::size_t count) {
    for (std::size_t step = 0; step < count; ++step) executor.run(plans[0], step % batch_slot_count);
  };
  run_steps(10);  // a plan is bound, and libraries set themselves up, in the first steps on a slot

  const auto [allocations, growth] = [&] {
    const tests::AllocationCount count;
    run_steps(1000);
    return std::pair(count.value(), count.growth());
  }();
  CHECK(allocations == 0);
  CHECK(growth == 0);
}

}  // namespace
}  // namespace lockstep::runtime
