#include <dlfcn.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>

#include "model/zoo/zoo.h"
#include "runtime/executor.h"
#include "tests/support/catch.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> own_allocations{0};

/// oneDNN and OpenMP may allocate as they like; who called tells them from us.
bool called_by_vendor(const void* caller) {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view library(info.dli_fname);
  return library.find("libdnnl") != std::string_view::npos ||
         library.find("libgomp") != std::string_view::npos;
}

void* allocate(std::size_t bytes, const void* caller) {
  if (counting && !called_by_vendor(caller)) ++own_allocations;
  void* memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace lockstep::runtime {
namespace {

TEST_CASE("a training step allocates nothing of ours, and the heap does not grow over 1,000 steps") {
  const std::string name = GENERATE("linear", "mlp", "simplecnn");
  const auto device = kernels::make_cpu_device(1);
  const auto communicator = comm::make_communicator({}, {});
  const model::ZooEntry& entry = model::find_model(name, {});
  const model::InputSpec input = entry.wants({});
  const model::OptimizerOptions optimizer;
  std::vector<Plan> plans;
  plans.push_back(make_plan(entry.make({}, input), input, {.batch_size = 16}, *device, {}));
  ReplicaMemory memory(*device, *communicator, plans, optimizer);
  Executor executor(*device, *communicator, memory, plans, optimizer);
  model::set_step(optimizer, 1, *memory.step_state());
  memory.step_state()->valid_samples = 16;
  for (int warm_up = 0; warm_up < 10; ++warm_up) executor.run(0, 0);

  own_allocations = 0;
  counting = true;
  for (std::size_t step = 0; step < 10; ++step) executor.run(0, step % batch_slot_count);
  counting = false;
  CHECK(own_allocations == 0);

  const std::size_t before = ::mallinfo2().uordblks;
  for (std::size_t step = 0; step < 1000; ++step) executor.run(0, step % batch_slot_count);
  CHECK(::mallinfo2().uordblks <= before);
}

}  // namespace
}  // namespace lockstep::runtime
