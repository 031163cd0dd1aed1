#include <cstring>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {

TEST_CASE("the last error is kept until it is asked for") {
  const FreshMachine fresh;
  CHECK(cudaSetDevice(5) == cudaErrorInvalidDevice);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a device that another process holds alone can be described, but not chosen") {
  const FreshMachine fresh([](Settings& settings) {
    settings.devices = 2;
    settings.held = 1;
  });
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 1) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaErrorDevicesUnavailable);
  int current = -1;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
  CHECK(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("errors have names and texts") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorString(cudaErrorStreamCaptureUnjoined)) == "stream capture unjoined");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) == "unrecognized error code");
}

TEST_CASE("the call that is to fail fails, in the way of its kind") {
  const auto fail = [](std::uint64_t number) {
    return [number](Settings& settings) { settings.fail_call = number; };
  };
  void* block = nullptr;
  cudaStream_t stream = nullptr;
  {
    const FreshMachine fresh(fail(2));
    CHECK(cudaMalloc(&block, 4) == cudaSuccess);
    CHECK(cudaMalloc(&block, 4) == cudaErrorMemoryAllocation);
    CHECK(cudaMalloc(&block, 4) == cudaSuccess);
  }
  {
    const FreshMachine fresh(fail(2));
    CHECK(cudaStreamCreate(&stream) == cudaSuccess);
    CHECK(enqueue(stream, {Operation::Kind::kernel, "k", {}, [] { return true; }}) ==
          cudaErrorLaunchOutOfResources);
    CHECK(enqueue(stream, {Operation::Kind::kernel, "k", {}, [] { return true; }}) == cudaSuccess);
  }
}

TEST_CASE("the call that is to fail may be one of a function's") {
  const FreshMachine fresh([](Settings& settings) {
    settings.fail_call = 2;
    settings.fail_function = "cudaStreamCreate";
  });
  void* block = nullptr;
  cudaStream_t stream = nullptr;
  for (int i = 0; i < 3; ++i) CHECK(cudaMalloc(&block, 4) == cudaSuccess);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  CHECK(cudaStreamCreate(&stream) == cudaErrorMemoryAllocation);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
}

TEST_CASE("after a sticky error nothing works any more") {
  const FreshMachine fresh([](Settings& settings) { settings.fail_call = 1; });
  void* block = nullptr;
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaMalloc(&block, 4) == cudaErrorLaunchFailure);
  CHECK(enqueue(nullptr, {Operation::Kind::kernel, "k", {}, [] { return true; }}) == cudaErrorLaunchFailure);
}

TEST_CASE("a kernel that is to fail fails when it runs: the next call tells, or its launch if that waits") {
  const bool blocks = GENERATE(false, true);
  CAPTURE(blocks);
  const FreshMachine fresh([=](Settings& settings) {
    settings.policy = Policy::lazy;
    settings.fail_kernel = "faulty";
    settings.fail_run = 2;
    settings.launch_blocking = blocks;
  });
  float* const values = make_floats(1);
  set_floats(values, {1});
  const cudaStream_t stream = make_stream();
  CHECK(launch_add(stream, values, 1, 1, "faulty") == cudaSuccess);
  CHECK(launch_add(stream, values, 1, 1, "sound") == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(launch_add(stream, values, 1, 1, "faulty") == (blocks ? cudaErrorIllegalAddress : cudaSuccess));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  CHECK(launch_add(stream, values, 1, 1, "sound") == cudaErrorIllegalAddress);
}

TEST_CASE("calls are counted by name") {
  const FreshMachine fresh;
  CHECK(call_count("cudaMalloc") == 0);
  float* values = make_floats(1);
  make_floats(1);
  ok(cudaMemset(values, 0, 4));
  ok(launch_add(nullptr, values, 1, 1));
  CHECK(call_count("cudaMalloc") == 2);
  CHECK(call_count("cudaMemset") == 1);
  CHECK(call_count("cudaLaunchKernel") == 1);
  CHECK(call_count("cudaFree") == 0);
}

TEST_CASE("a machine may have no device, or several that are told apart") {
  int devices = -1;
  {
    const FreshMachine fresh([](Settings& settings) { settings.devices = 0; });
    void* block = nullptr;
    CHECK(cudaGetDeviceCount(&devices) == cudaErrorNoDevice);
    CHECK(devices == 0);
    CHECK(cudaMalloc(&block, 4) == cudaErrorNoDevice);
  }
  const FreshMachine fresh([](Settings& settings) { settings.devices = 3; });
  ok(cudaGetDeviceCount(&devices));
  CHECK(devices == 3);
  cudaDeviceProp properties{};
  ok(cudaGetDeviceProperties(&properties, 2));
  CHECK(std::string(properties.name) == "simulated");
  CHECK(properties.major == 9);
  CHECK(cudaGetDeviceProperties(&properties, 3) == cudaErrorInvalidDevice);
  char bus[16] = {};
  char other_bus[16] = {};
  ok(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  ok(cudaDeviceGetPCIBusId(other_bus, sizeof other_bus, 1));
  CHECK(std::string(bus) == "0000:01:00.0");
  CHECK(std::strcmp(bus, other_bus) != 0);
  int value = 0;
  ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(value == properties.multiProcessorCount);
}

TEST_CASE("dynamic shared memory is granted up to the device's limit") {
  const FreshMachine fresh;
  const void* kernel = &fresh;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 << 10) ==
        cudaErrorInvalidValue);
  cudaFuncAttributes attributes{};
  ok(cudaFuncGetAttributes(&attributes, kernel));
  CHECK(attributes.maxDynamicSharedSizeBytes == 100 << 10);
  int blocks = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
  CHECK(blocks == 8);
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 100 << 10));
  CHECK(blocks == 2);
}

}  // namespace simgpu::test
