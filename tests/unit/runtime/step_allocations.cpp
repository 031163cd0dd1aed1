#include <malloc.h>

#include "comm/make_communicator.h"
#include "model/zoo/zoo.h"
#include "runtime/step/executor.h"
#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"

namespace lockstep::runtime {
namespace {

TEST_CASE("a training step allocates nothing of ours, and the heap does not grow over 1,000 steps") {
  const std::string name = GENERATE("linear", "mlp", "simplecnn");
  const double clip_grad_norm = GENERATE(0.0, 1.0);
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const model::ZooEntry& entry = model::find_model(name, {});
  const model::InputSpec input = entry.wants({});
  std::vector<Plan> plans;
  plans.push_back(make_plan(entry.make({}, input), input,
                            {.key = {.batch = 16}, .clip_grad_norm = clip_grad_norm}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans);
  Executor executor(*device, *communicator, memory);
  for (std::size_t slot = 0; slot < batch_slot_count; ++slot) {
    memory.host_input(slot).state = {.learning_rate = 1e-3F, .valid_samples = 16};
  }
  for (int warm_up = 0; warm_up < 10; ++warm_up) executor.run(plans[0], 0);

  const int allocations = [&] {
    const tests::AllocationCount count;
    for (std::size_t step = 0; step < 10; ++step) executor.run(plans[0], step % batch_slot_count);
    return count.value();
  }();
  CHECK(allocations == 0);

  const std::size_t before = ::mallinfo2().uordblks;
  for (std::size_t step = 0; step < 1000; ++step) executor.run(plans[0], step % batch_slot_count);
  CHECK(::mallinfo2().uordblks <= before);
}

}  // namespace
}  // namespace lockstep::runtime
