#include "tests/support/allocation_count.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("all_reduce allocates nothing", "[comm]") {
  const auto errors = run_thread_ranks(2, {.timeout = Seconds(10)}, [](Communicator& group) {
    group.allocate_arena(1 << 20);
    NoStream stream;
    const tests::AllocationCount count;
    for (int step = 0; step < 20; ++step) {
      group.all_reduce(0, 100, DType::f32, {.bucket = 0, .first_parameter = "fc1.weight"}, stream);
      group.all_reduce(0, 200000, DType::f32, {.bucket = 1, .first_parameter = "fc2.weight"}, stream);
    }
    if (count.value() != 0) throw std::runtime_error(std::to_string(count.value()) + " allocations");
  });
  CHECK(errors == std::vector<std::string>(2));
}
