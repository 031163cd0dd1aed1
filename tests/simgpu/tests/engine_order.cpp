#include <cstdlib>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/simgpu/engine/thread_order.h"
#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;

namespace {

std::vector<unsigned> order_of_threads(const std::string& order, unsigned count) {
  const test::Environment chosen("SIMGPU_THREAD_ORDER", order);
  std::vector<unsigned> threads;
  test::run(1, count, [&] { threads.push_back(threadIdx.x); });
  return threads;
}

}  // namespace

TEST_CASE("every thread of a grid runs once and knows its place") {
  std::set<std::vector<unsigned>> places;
  int calls = 0;
  bool same_extents = true;
  test::run(dim3(3, 2, 2), dim3(5, 3, 2), [&] {
    ++calls;
    places.insert({blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z});
    same_extents = same_extents && gridDim.x == 3 && gridDim.y == 2 && gridDim.z == 2 && blockDim.x == 5 &&
                   blockDim.y == 3 && blockDim.z == 2;
  });
  CHECK(calls == 3 * 2 * 2 * 5 * 3 * 2);
  CHECK(places.size() == static_cast<std::size_t>(calls));
  CHECK(same_extents);
}

TEST_CASE("threads run in the order that the environment names") {
  std::vector<unsigned> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0u);
  CHECK(order_of_threads("forward", 100) == numbers);
  CHECK(order_of_threads("reverse", 100) == std::vector<unsigned>(numbers.rbegin(), numbers.rend()));
  const auto shuffled = order_of_threads("shuffled:1", 100);
  CHECK(shuffled != numbers);
  CHECK(std::set<unsigned>(shuffled.begin(), shuffled.end()).size() == 100);
  CHECK(order_of_threads("shuffled:1", 100) == shuffled);
  CHECK(order_of_threads("shuffled:2", 100) != shuffled);
  CHECK(order_of_threads("shuffled:2", 1) == std::vector<unsigned>{0});
  CHECK_THROWS_AS(ThreadOrder::parse("shuffled"), std::invalid_argument);
  CHECK_THROWS_AS(ThreadOrder::parse("shuffled:1x"), std::invalid_argument);
}

TEST_CASE("a missing barrier after a write shows in some order of the threads") {
  const auto wrong_results = [](const std::string& order) {
    const test::Environment chosen("SIMGPU_THREAD_ORDER", order);
    int wrong = 0;
    test::run(
        1, 64,
        [&] {
          DYNAMIC_SHARED(int, tile);
          tile[threadIdx.x] = static_cast<int>(threadIdx.x);
          // __syncthreads() is missing
          wrong += tile[(threadIdx.x + 1) % 64] != static_cast<int>((threadIdx.x + 1) % 64);
        },
        64 * sizeof(int));
    return wrong;
  };
  CHECK(wrong_results("forward") + wrong_results("reverse") > 0);
}

TEST_CASE("threads of a block that wait keep their own variables") {
  std::vector<int> sums(1024);
  test::run(1, 1024, [&] {
    int own[64];
    for (int i = 0; i < 64; ++i) own[i] = static_cast<int>(threadIdx.x) + i;
    __syncthreads();
    for (int i = 0; i < 64; ++i) sums[threadIdx.x] += own[i];
    __syncthreads();
  });
  for (int i = 0; i < 1024; ++i) CHECK(sums[static_cast<std::size_t>(i)] == 64 * i + 63 * 32);
}
