#include <cmath>
#include <vector>

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;
using simgpu::test::mistake_of;

TEST_CASE("a block's shared memory holds nothing of the block before") {
  int stale = 0;
  test::run(
      4, 32,
      [&] {
        DYNAMIC_SHARED(float, dynamic);
        STATIC_SHARED(int, fixed, 32);
        stale += !std::isnan(dynamic[threadIdx.x]) || fixed[threadIdx.x] != -1;
        dynamic[threadIdx.x] = 1.0f;
        fixed[threadIdx.x] = 1;
      },
      32 * sizeof(float));
  CHECK(stale == 0);
}

TEST_CASE("all threads of a block share the array, and every instance of a template has its own") {
  std::vector<int> out(64);
  test::run(2, 32, [&] {
    STATIC_SHARED(int, tile, 32);
    tile[threadIdx.x] = static_cast<int>(blockIdx.x * 100 + threadIdx.x);
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
  });
  for (unsigned i = 0; i < 64; ++i) CHECK(out[i] == static_cast<int>(i / 32 * 100 + 31 - i % 32));
}

TEST_CASE("a write behind the block's dynamic shared memory is a mistake") {
  const auto fill = [](unsigned count) {
    return [count] {
      DYNAMIC_SHARED(float, tile);
      if (threadIdx.x < count) tile[threadIdx.x] = 1.0f;
    };
  };
  CHECK(mistake_of(1, 64, fill(33), 32 * sizeof(float)).kind == "shared memory overrun");
  CHECK(mistake_of(1, 64, fill(32), 32 * sizeof(float)).kind == "none");
}

TEST_CASE("a write behind a static array is a mistake") {
  const auto fill = [](unsigned count) {
    return [count] {
      STATIC_SHARED(char, tile, 30);
      char* volatile first = tile;  // an index that the compiler does not see
      if (threadIdx.x < count) first[threadIdx.x] = 1;
    };
  };
  const auto seen = mistake_of(1, 32, fill(31));
  CHECK(seen.kind == "shared memory overrun");
  CHECK(seen.text.find("wrote byte 30 of static shared memory that has 30") != std::string::npos);
  CHECK(mistake_of(1, 32, fill(30)).kind == "none");
}

TEST_CASE("dynamic shared memory that the launch did not give is a mistake") {
  CHECK(mistake_of(1, 1, [] {
          DYNAMIC_SHARED(float, tile);
          static_cast<void>(tile);
        }).kind == "no dynamic shared memory");
}

TEST_CASE("more than 48 KiB of static and dynamic shared memory is a mistake") {
  const auto use = [] {
    STATIC_SHARED(char, tile, 1024);
    static_cast<void>(tile);
  };
  CHECK(mistake_of(1, 1, use, (47 << 10) + 1).kind == "too much shared memory");
  CHECK(mistake_of(1, 1, use, 47 << 10).kind == "none");
}
