#include "tests/simgpu/tests/engine_support.h"

using simgpu::test::mistake_of;

TEST_CASE("threads that wait for each other for ever are told with the place where each waits") {
  const auto seen = mistake_of(1, 64, [] {
    if (threadIdx.x < 32 || threadIdx.x == 40) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  });
  CHECK(seen.kind == "deadlock");
  CHECK(seen.text.find("threads 0-31, 40 wait in __syncthreads at ") != std::string::npos);
  CHECK(seen.text.find("threads 32-39, 41-63 wait in __syncwarp with mask 0xffffffff at ") !=
        std::string::npos);
}

TEST_CASE("a thread that waits for one that still comes is no deadlock") {
  int flag = 0, seen = 0;
  CHECK(mistake_of(1, 2, [&] {
          if (threadIdx.x == 0) {
            while (atomicAdd(&flag, 0) == 0) __nanosleep(100);
            seen = 1;
          } else {
            atomicExch(&flag, 1);
          }
        }).kind == "none");
  CHECK(seen == 1);
}
