#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("all_reduce allocates nothing", "[comm]") {
  const auto errors = run_thread_ranks(2, {.timeout = Seconds(10)}, [](Communicator& group) {
    group.allocate_arena(1 << 20);
    NoStream stream;
    const std::size_t before = allocations;
    for (int step = 0; step < 20; ++step) {
      group.all_reduce(0, 100, DType::f32, {.bucket = 0, .first_parameter = "fc1.weight"}, stream);
      group.all_reduce(0, 200000, DType::f32, {.bucket = 1, .first_parameter = "fc2.weight"}, stream);
    }
    if (allocations != before)
      throw std::runtime_error(std::to_string(allocations - before) + " allocations");
    if (before == 0) throw std::runtime_error("the count does not count");
  });
  CHECK(errors == std::vector<std::string>(2));
}
