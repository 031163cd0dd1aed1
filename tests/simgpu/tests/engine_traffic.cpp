#include "tests/simgpu/engine/traffic.h"

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;

namespace {

constexpr std::size_t kilobyte = 1024;

/// What a launch moves whose only thread does this with an array of device memory.
template <class Accesses>
KernelTraffic traffic_of(Accesses accesses) {
  void* array = nullptr;
  REQUIRE(cudaMalloc(&array, 1024 * kilobyte) == cudaSuccess);
  start_counting_traffic();
  take_traffic();
  test::run(1, 1, [&] { accesses(static_cast<std::byte*>(array)); });
  const auto launches = take_traffic();
  cudaFree(array);
  REQUIRE(launches.size() == 1);
  return launches.front();
}

/// As kernels do that are compiled with calls at loads and stores.
void walk(std::byte* array, std::size_t bytes, bool writes, std::size_t stride = 4) {
  for (std::size_t at = 0; at < bytes; at += stride) note_access(array + at, 4, writes);
}

}  // namespace

TEST_CASE("bytes that a launch reads and writes once are what it needs and what it moves") {
  const auto traffic = traffic_of([](std::byte* array) {
    walk(array, 512 * kilobyte, false);
    walk(array + 512 * kilobyte, 256 * kilobyte, true);
  });
  CHECK(traffic.needed == 768 * kilobyte);
  CHECK(traffic.moved == 768 * kilobyte);
  CHECK(traffic.accesses == 192 * kilobyte);
}

TEST_CASE("what is read again moves again, unless the cache still has it") {
  CHECK(traffic_of([](std::byte* array) {
          for (int i = 0; i < 3; ++i) walk(array, 512 * kilobyte, false);
        }).moved == 3 * 512 * kilobyte);
  CHECK(traffic_of([](std::byte* array) {
          for (int i = 0; i < 3; ++i) walk(array, 16 * kilobyte, false);
        }).moved == 16 * kilobyte);
}

TEST_CASE("a launch that uses a part of each sector moves whole sectors") {
  const auto traffic = traffic_of([](std::byte* array) { walk(array, 512 * kilobyte, false, 32); });
  CHECK(traffic.needed == 64 * kilobyte);
  CHECK(traffic.moved == 512 * kilobyte);
}

TEST_CASE("what a launch reads of its own writes is neither needed nor fetched") {
  const auto traffic = traffic_of([](std::byte* array) {
    walk(array, 16 * kilobyte, true);
    walk(array, 16 * kilobyte, false);
  });
  CHECK(traffic.needed == 16 * kilobyte);
  CHECK(traffic.moved == 16 * kilobyte);
}
