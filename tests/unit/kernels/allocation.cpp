#include "kernels/conv2d.h"
#include "kernels/gradient_norm.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/optimizer.h"
#include "kernels/pool_indices.h"
#include "tests/support/allocation_count.h"
#include "tests/unit/kernels/harness.h"

using namespace lockstep;
using namespace lockstep::kernels;
using namespace lockstep::kernels::test;

namespace {

template <class Spec>
int allocations(const Spec& spec, KernelIo io) {
  choose_layouts(device(), spec, io);
  const auto kernel = kernel_for(device(), spec, io);
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
  const tests::AllocationCount count;
  bound->launch(*stream);
  return count.value();
}

TensorDesc f32(const Shape& shape) {
  return {DType::f32, shape, {}};
}
TensorDesc bytes(std::int64_t count) {
  return {DType::u8, {count}, {}};
}

}  // namespace

TEST_CASE("the counter counts what we allocate") {
  const int counted = [] {
    const tests::AllocationCount count;
    ::operator delete(::operator new(1));
    return count.value();
  }();
  CHECK(counted == 1);
}

TEST_CASE("the counter counts what the body of a parallel region allocates, on each thread of the team") {
  const int counted = [] {
    const tests::AllocationCount count;
#pragma omp parallel num_threads(2)
    ::operator delete(::operator new(1));
    return count.value();
  }();
  CHECK(counted == 2);
}

TEST_CASE("a launch allocates nothing of ours") {
  if (!device().is_cpu()) return;  // a driver, or the machine in software, may
  const Conv2dGeometry same{.padding = {1, 1}};
  CHECK(allocations(Conv2d{same, Activation::relu},
                    {{f32({8, 16, 14, 14}), f32({32, 16, 3, 3}), f32({32})}, {f32({8, 32, 14, 14})}}) == 0);
  CHECK(allocations(Conv2dBackwardData{same},
                    {{f32({8, 32, 14, 14}), f32({32, 16, 3, 3})}, {f32({8, 16, 14, 14})}}) == 0);
  CHECK(allocations(Conv2dBackwardWeights{same},
                    {{f32({8, 16, 14, 14}), f32({8, 32, 14, 14})}, {f32({32, 16, 3, 3}), f32({32})}}) == 0);
  CHECK(allocations(Linear{}, {{f32({64, 784}), f32({128, 784}), f32({128})}, {f32({64, 128})}}) == 0);
  CHECK(allocations(Linear{}, {{f32({32, 10}), f32({1, 10}), f32({1})}, {f32({32, 1})}}) == 0);
  CHECK(allocations(MaxPool2d{{{2, 2}, {2, 2}}}, {{f32({8, 32, 28, 28})}, {f32({8, 32, 14, 14})}}) == 0);
  const TensorDesc places{DType::u8, {8, 32, 14, 14}, {}};
  CHECK(allocations(MaxPool2dWithIndices{{{2, 2}, {2, 2}}},
                    {{f32({8, 32, 28, 28})}, {f32({8, 32, 14, 14}), places}}) == 0);
  CHECK(allocations(MaxPool2dWithIndicesBackward{{{2, 2}, {2, 2}}},
                    {{f32({8, 32, 14, 14}), places}, {f32({8, 32, 28, 28})}}) == 0);
  CHECK(allocations(SoftmaxCrossEntropy{}, {{f32({64, 10}), {DType::i64, {64}, {}}, bytes(sizeof(StepState))},
                                            {bytes(sizeof(ControlBlock)), f32({64, 10})}}) == 0);
  CHECK(allocations(GradientNorm{.max_norm = 1},
                    {{f32({100000})}, {bytes(sizeof(StepState)), bytes(sizeof(ControlBlock))}}) == 0);
  CHECK(allocations(AdamUpdate{}, {{f32({100000}), bytes(sizeof(StepState))},
                                   {f32({100000}), f32({100000}), f32({100000})}}) == 0);
}
