#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/conv2d.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pool2d.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

std::atomic<bool> counting{false};
std::atomic<int> ours{0};

/// Whether oneDNN asks for the memory: it never calls us, so a frame of it on the stack is the one that asks.
bool from_library() {
  void* callers[24];
  const int depth = ::backtrace(callers, 24);
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (::dladdr(callers[i], &info) == 0 || info.dli_fname == nullptr) continue;
    if (std::strstr(info.dli_fname, "libdnnl") != nullptr) return true;
  }
  return false;
}

void* counted(std::size_t bytes) {
  if (counting.exchange(false)) {
    if (!from_library()) ++ours;
    counting = true;
  }
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

template <class Spec>
int allocations(const Spec& spec, KernelIo io) {
  if constexpr (requires { choose_layouts(Cpu{}, spec, io); }) choose_layouts(device(), spec, io);
  const auto kernel = prepare(device(), spec, io);
  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<void*> addresses;
  for (const auto* side : {&io.inputs, &io.outputs}) {
    for (const TensorDesc& desc : *side) {
      memories.push_back(device().allocate(desc.bytes()));
      addresses.push_back(memories.back()->data());
    }
  }
  const auto workspace = device().allocate(kernel->workspace_bytes());
  const auto bound = kernel->bind(addresses, workspace->data());
  const auto stream = device().make_stream();
  bound->launch(*stream);  // the first may set up the team's threads
  ours = 0;
  counting = true;
  bound->launch(*stream);
  counting = false;
  return ours;
}

TensorDesc f32(const Shape& shape) {
  return {DType::f32, shape, {}};
}
TensorDesc bytes(std::int64_t count) {
  return {DType::u8, {count}, {}};
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("the counter counts what we allocate") {
  ours = 0;
  counting = true;
  delete new int(1);
  counting = false;
  CHECK(ours == 1);
}

TEST_CASE("a launch allocates nothing of ours") {
  const Conv2dGeometry same{.padding = {1, 1}};
  CHECK(allocations(Conv2dForward{same, true, true},
                    {{f32({8, 16, 14, 14}), f32({32, 16, 3, 3}), f32({32})}, {f32({8, 32, 14, 14})}}) == 0);
  CHECK(allocations(Conv2dBackwardData{same},
                    {{f32({8, 32, 14, 14}), f32({32, 16, 3, 3})}, {f32({8, 16, 14, 14})}}) == 0);
  CHECK(allocations(Conv2dBackwardWeights{same},
                    {{f32({8, 16, 14, 14}), f32({8, 32, 14, 14})}, {f32({32, 16, 3, 3}), f32({32})}}) == 0);
  CHECK(allocations(LinearForward{}, {{f32({64, 784}), f32({128, 784}), f32({128})}, {f32({64, 128})}}) == 0);
  CHECK(allocations(LinearForward{}, {{f32({32, 10}), f32({1, 10}), f32({1})}, {f32({32, 1})}}) == 0);
  CHECK(allocations(MaxPool2dForward{}, {{f32({8, 32, 28, 28})}, {f32({8, 32, 14, 14})}}) == 0);
  CHECK(allocations(SoftmaxCrossEntropy{}, {{f32({64, 10}), {DType::i64, {64}, {}}, bytes(sizeof(StepState))},
                                            {f32({64, 10}), bytes(sizeof(ControlBlock))}}) == 0);
  CHECK(allocations(AdamUpdate{}, {{f32({100000}), bytes(sizeof(StepState))},
                                   {f32({100000}), f32({100000}), f32({100000})}}) == 0);
}
