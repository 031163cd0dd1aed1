#include <vector>

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;
using simgpu::test::mistake_of;

namespace {

/// Turns a block's values round through shared memory.
__device__ void reverse(const int* in, int* out) {
  __shared__ int tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

}  // namespace

TEST_CASE("what was written before a barrier is read after it") {
  std::vector<int> in(256), out(256);
  for (int i = 0; i < 256; ++i) in[static_cast<std::size_t>(i)] = i;
  test::run(1, 256, [&] { reverse(in.data(), out.data()); });
  for (int i = 0; i < 256; ++i) CHECK(out[static_cast<std::size_t>(i)] == 255 - i);
}

TEST_CASE("barriers in a loop keep a block's threads in step") {
  std::vector<int> step(64);
  int behind = 0;
  test::run(2, 64, [&] {
    for (int round = 1; round <= 20; ++round) {
      step[threadIdx.x] = round;
      __syncthreads();
      for (const int other : step) behind += other != round;
      __syncthreads();
    }
  });
  CHECK(behind == 0);
}

TEST_CASE("barriers that count") {
  int count = 0, any = 0, none = 0, all = 0, not_all = 0;
  test::run(1, dim3(8, 4, 2), [&] {
    const bool first = threadIdx.x == 0;
    if (__syncthreads_count(first) == 8) ++count;
    if (__syncthreads_or(first && threadIdx.y == 3) != 0) ++any;
    if (__syncthreads_or(threadIdx.x == 8) == 0) ++none;
    if (__syncthreads_and(7) == 1) ++all;
    if (__syncthreads_and(first) == 0) ++not_all;
  });
  CHECK(std::vector{count, any, none, all, not_all} == std::vector(5, 64));
}

TEST_CASE("threads that wait in different barriers are a mistake") {
  const auto seen = mistake_of(1, 64, [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  CHECK(seen.kind == "divergent barrier");
  CHECK(seen.text.find("kernel tested, block (0,0,0), thread (") == 0);
  CHECK(seen.text.find("engine_barriers.cpp:") != std::string::npos);
}

TEST_CASE("a barrier without a thread that has returned is a mistake, unless that is allowed") {
  int passed = 0;
  const auto early_return = [&passed] {
    if (threadIdx.x == 7) return;
    __syncthreads();
    ++passed;
  };
  CHECK(mistake_of(1, 64, early_return).kind == "exited thread");
  CHECK(passed == 0);
  const test::Environment allowed("SIMGPU_EXITED_THREADS", "allowed");
  CHECK(mistake_of(1, 64, early_return).kind == "none");
  CHECK(passed == 63);
}

TEST_CASE("after a mistake the next grid runs as if nothing had been") {
  const auto half = [] {
    if (threadIdx.x < 16) __syncthreads();
  };
  std::vector<int> in(256, 3), out(256);
  for (int round = 0; round < 3; ++round) {
    CHECK(mistake_of(1, 32, half).kind == "exited thread");
    test::run(1, 256, [&] { reverse(in.data(), out.data()); });
    CHECK(out == in);
  }
}
