#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("all_reduce allocates nothing", "[comm]") {
  const auto errors = run_thread_ranks(2, {.timeout = Seconds(10)}, [](Communicator& group) {
    const auto arena = group.allocate_arena(DType::f32, 1 << 18);
    const auto control = group.allocate_arena(DType::f32, 16);
    const ArenaRange both[] = {{arena.get(), 0, 200000}, all_of(*control)};
    NoStream stream;
    const tests::AllocationCount count;
    for (int step = 0; step < 20; ++step) {
      group.all_reduce({arena.get(), 0, 100}, {.bucket = 0, .what = "fc1.weight"}, stream);
      group.all_reduce(both, {.bucket = 1, .what = "fc2.weight"}, stream);
    }
    if (count.value() != 0) throw std::runtime_error(std::to_string(count.value()) + " allocations");
  });
  CHECK(errors == std::vector<std::string>(2));
}
