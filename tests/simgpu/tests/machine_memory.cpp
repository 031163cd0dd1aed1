#include <cmath>
#include <stdexcept>

#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

}  // namespace

TEST_CASE("bytes go to the device, through a kernel and back") {
  const FreshMachine fresh;
  float* values = make_floats(3);
  set_floats(values, {1, 2, 3});
  ok(launch_add(nullptr, values, 3, 10));
  CHECK(read_floats(values, 3) == std::vector<float>{11, 12, 13});
  ok(cudaFree(values));
}

TEST_CASE("a device that is full says so, and has room again after a free") {
  const FreshMachine fresh([](Settings& settings) { settings.device_bytes = 4 * mebibyte; });
  void* first = nullptr;
  void* second = nullptr;
  ok(cudaMalloc(&first, 3 * mebibyte));
  CHECK(cudaMalloc(&second, 2 * mebibyte) == cudaErrorMemoryAllocation);
  CHECK(second == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  std::size_t free = 0;
  std::size_t total = 0;
  ok(cudaMemGetInfo(&free, &total));
  CHECK(free == mebibyte);
  CHECK(total == 4 * mebibyte);
  ok(cudaFree(first));
  ok(cudaMalloc(&second, 4 * mebibyte));
}

TEST_CASE("memory whose free is still to come in a stream makes room when it is needed") {
  const FreshMachine fresh([](Settings& settings) { settings.device_bytes = 4 * mebibyte; });
  const cudaStream_t stream = make_stream();
  for (int i = 0; i < 8; ++i) {
    void* block = nullptr;
    ok(cudaMallocAsync(&block, 3 * mebibyte, stream));
    ok(cudaFreeAsync(block, stream));
  }
}

TEST_CASE("fresh memory is not zero") {
  const FreshMachine fresh;
  CHECK(std::isnan(read_floats(make_floats(1), 1)[0]));
}

TEST_CASE("each device has its own memory") {
  const FreshMachine fresh([](Settings& settings) { settings.devices = 2; });
  float* on_first = make_floats(4);
  ok(cudaSetDevice(1));
  float* on_second = make_floats(4);
  CHECK(mistake_in([&] { launch_add(nullptr, on_second, 4, 1); }) == "none");
  CHECK(mistake_in([&] { launch_add(nullptr, on_first, 4, 1); }) == "memory of another device");
  CHECK(mistake_in([&] { cudaMemcpy(on_second, on_first, 16, cudaMemcpyDeviceToDevice); }) == "none");
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, on_second));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 1);
}

TEST_CASE("what a pointer is") {
  const FreshMachine fresh;
  float* pinned = make_pinned(1);
  float on_stack = 0;
  cudaPointerAttributes attributes{};
  ok(cudaPointerGetAttributes(&attributes, pinned));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(attributes.hostPointer == pinned);
  ok(cudaPointerGetAttributes(&attributes, &on_stack));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  ok(cudaHostRegister(&on_stack, sizeof on_stack, cudaHostRegisterDefault));
  ok(cudaPointerGetAttributes(&attributes, &on_stack));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaHostRegister(&on_stack, sizeof on_stack, 0) == cudaErrorHostMemoryAlreadyRegistered);
  ok(cudaHostUnregister(&on_stack));
  CHECK(cudaHostUnregister(&on_stack) == cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("a kernel that is given freed memory is told") {
  const FreshMachine fresh;
  float* values = make_floats(4);
  ok(cudaFree(values));
  const Mistake mistake = whole_mistake_in([&] { launch_add(nullptr, values, 4, 1); });
  CHECK(mistake.kind == "use after free");
  CHECK_THAT(mistake.text,
             contains("add on the default stream") && contains("which was freed at test_simgpu"));
  CHECK(mistake_in([&] { cudaMemset(values, 0, 16); }) == "use after free");
}

TEST_CASE("numbers of a structure that only look like an address are none, a freed address is one") {
  const FreshMachine fresh;
  float* values = make_floats(4);
  const auto run_with = [](const void* address, bool guessed) {
    return mistake_in([&] {
      enqueue(nullptr,
              {Operation::Kind::kernel, "k", {{address, nullptr, true, guessed}}, [] { return true; }});
      cudaDeviceSynchronize();
    });
  };
  const void* const nowhere = values + (1 << 20);
  CHECK(run_with(nowhere, true) == "none");
  CHECK(run_with(nowhere, false) == "foreign pointer");
  ok(cudaFree(values));
  CHECK(run_with(values, true) == "use after free");
}

TEST_CASE("memory is freed once, by its own function and address") {
  const FreshMachine fresh;
  float* values = make_floats(4);
  float* pinned = make_pinned(4);
  CHECK(mistake_in([&] { cudaFree(values + 1); }) == "foreign pointer");
  CHECK(mistake_in([&] { cudaFreeHost(values); }) == "foreign pointer");
  CHECK(mistake_in([&] { cudaFree(pinned); }) == "foreign pointer");
  ok(cudaFree(values));
  ok(cudaFreeHost(pinned));
  CHECK(mistake_in([&] { cudaFree(values); }) == "double free");
  CHECK(mistake_in([&] { cudaFreeHost(pinned); }) == "double free");
  float on_stack = 0;
  CHECK(mistake_in([&] { cudaFree(&on_stack); }) == "foreign pointer");
  ok(cudaFree(nullptr));
}

TEST_CASE("memory is freed when the host knows that nothing uses it") {
  const FreshMachine fresh;
  const cudaStream_t stream = make_stream();
  float* values = make_floats(4);
  ok(launch_add(stream, values, 4, 1));
  CHECK(mistake_in([&] { cudaFree(values); }) == "use after free in flight");
  ok(cudaStreamSynchronize(stream));
  CHECK(mistake_in([&] { cudaFree(values); }) == "none");
}

TEST_CASE("an error on its way may free memory that is in use, as CUDA waits then") {
  const FreshMachine fresh;
  float* values = make_floats(4);
  struct Buffer {
    float* values;
    ~Buffer() { cudaFree(values); }
  };
  CHECK(mistake_in([&] {
          try {
            const Buffer buffer{values};
            launch_add(make_stream(), values, 4, 1);
            throw std::runtime_error("the first error");
          } catch (const std::runtime_error&) {
          }
        }) == "none");
}

TEST_CASE("a kernel that is given memory of the host is told; pinned memory it may use") {
  const FreshMachine fresh;
  std::vector<float> on_heap(4);
  float on_stack[4] = {};
  float* pinned = make_pinned(4);
  CHECK(mistake_in([&] { launch_add(nullptr, on_heap.data(), 4, 1); }) == "host pointer in a kernel");
  CHECK(mistake_in([&] { launch_add(nullptr, on_stack, 4, 1); }) == "host pointer in a kernel");
  CHECK(mistake_in([&] { launch_add(nullptr, nullptr, 0, 1); }) == "none");
  pinned[0] = 1;
  CHECK(mistake_in([&] { launch_add(nullptr, pinned, 4, 1); }) == "none");
  ok(cudaDeviceSynchronize());
  CHECK(pinned[0] == 2);
}

TEST_CASE("a kernel that writes beside its buffer is told when it ends") {
  const auto write_one = [&](int place) {
    return end_of_process([=] {
      float* values = make_floats(4);
      enqueue(nullptr, {Operation::Kind::kernel, "stray", {{values, nullptr, true}}, [=] {
                          values[place] = 1;
                          return true;
                        }});
      cudaDeviceSynchronize();
    });
  };
  CHECK(write_one(3) == "0 ");
  // AddressSanitizer, where it is there, tells it first, with the line.
  CHECK_THAT(write_one(4), contains("86 simgpu: out of bounds: ") || contains("use-after-poison"));
  CHECK_THAT(write_one(-1), contains("86 simgpu: out of bounds: ") || contains("use-after-poison"));
}

TEST_CASE("a copy stays inside its allocation") {
  const FreshMachine fresh;
  float* values = make_floats(4);
  std::vector<float> host(8);
  CHECK(mistake_in([&] { cudaMemcpy(values, host.data(), 16, cudaMemcpyHostToDevice); }) == "none");
  CHECK(mistake_in([&] { cudaMemcpy(values, host.data(), 17, cudaMemcpyHostToDevice); }) == "out of bounds");
  CHECK(mistake_in([&] { cudaMemset(values + 1, 0, 16); }) == "out of bounds");
  CHECK(cudaMemcpy(values, host.data(), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host.data(), values, 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
}

TEST_CASE("rows with a pitch are copied and filled") {
  const FreshMachine fresh;
  float* values = make_floats(6);
  ok(cudaMemset(values, 0, 24));
  const std::vector<float> rows{1, 2, 3, 4};
  ok(cudaMemcpy2D(values, 12, rows.data(), 8, 8, 2, cudaMemcpyHostToDevice));
  CHECK(read_floats(values, 6) == std::vector<float>{1, 2, 0, 3, 4, 0});
  ok(cudaMemset2DAsync(values, 12, 0, 4, 2, nullptr));
  CHECK(read_floats(values, 6) == std::vector<float>{0, 2, 0, 0, 4, 0});
}

}  // namespace simgpu::test
