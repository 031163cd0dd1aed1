#include <array>
#include <bit>
#include <vector>

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;
using simgpu::test::mistake_of;

namespace {

constexpr unsigned everyone = 0xffffffffu;

/// What `shuffle(lane)` gives in each lane of a warp.
template <typename Shuffle>
std::array<int, 32> in_each_lane(Shuffle shuffle) {
  std::array<int, 32> results{};
  test::run(1, 32, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    results[threadIdx.x] = shuffle(lane);
  });
  return results;
}

template <typename Formula>
std::array<int, 32> expected(Formula formula) {
  std::array<int, 32> results{};
  for (int lane = 0; lane < 32; ++lane) results[static_cast<std::size_t>(lane)] = formula(lane);
  return results;
}

}  // namespace

TEST_CASE("shuffles read the lane that CUDA's rules name") {
  CHECK(in_each_lane([](int lane) { return __shfl_sync(everyone, lane, 5); }) ==
        expected([](int) { return 5; }));
  CHECK(in_each_lane([](int lane) { return __shfl_sync(everyone, lane, 37); }) ==
        expected([](int) { return 5; }));
  CHECK(in_each_lane([](int lane) { return __shfl_sync(everyone, lane, 1, 8); }) ==
        expected([](int lane) { return lane / 8 * 8 + 1; }));
  CHECK(in_each_lane([](int lane) { return __shfl_up_sync(everyone, lane, 2); }) ==
        expected([](int lane) { return lane < 2 ? lane : lane - 2; }));
  CHECK(in_each_lane([](int lane) { return __shfl_up_sync(everyone, lane, 3, 16); }) ==
        expected([](int lane) { return lane % 16 < 3 ? lane : lane - 3; }));
  CHECK(in_each_lane([](int lane) { return __shfl_down_sync(everyone, lane, 4); }) ==
        expected([](int lane) { return lane > 27 ? lane : lane + 4; }));
  CHECK(in_each_lane([](int lane) { return __shfl_down_sync(everyone, lane, 1, 4); }) ==
        expected([](int lane) { return lane % 4 == 3 ? lane : lane + 1; }));
  CHECK(in_each_lane([](int lane) { return __shfl_xor_sync(everyone, lane, 16); }) ==
        expected([](int lane) { return lane ^ 16; }));
  // Into an earlier segment it reads, into a later one it does not.
  CHECK(in_each_lane([](int lane) { return __shfl_xor_sync(everyone, lane, 8, 8); }) ==
        expected([](int lane) { return lane & 8 ? lane ^ 8 : lane; }));
}

TEST_CASE("shuffles carry all types that CUDA shuffles") {
  std::vector<int> good(32);
  test::run(1, 32, [&] {
    const auto lane = threadIdx.x;
    bool same = __shfl_sync(everyone, 0.25f * static_cast<float>(lane), 3) == 0.75f;
    same = same && __shfl_sync(everyone, 0.5 * lane, 3) == 1.5;
    same = same && __shfl_sync(everyone, 1ull << lane, 31) == 1ull << 31;
    same = same && __shfl_sync(everyone, -static_cast<long>(lane), 31) == -31;
    same = same && __half2float(__shfl_sync(everyone, __float2half(static_cast<float>(lane)), 7)) == 7.0f;
    const auto pair = __shfl_sync(everyone, __floats2bfloat162_rn(static_cast<float>(lane), 2.0f), 9);
    same = same && __bfloat162float(pair.x) == 9.0f && __bfloat162float(pair.y) == 2.0f;
    good[lane] = same;
  });
  CHECK(good == std::vector(32, 1));
}

TEST_CASE("votes, matches and reductions") {
  CHECK(in_each_lane([](int lane) { return static_cast<int>(__ballot_sync(everyone, lane % 4 == 1)); }) ==
        expected([](int) { return 0x22222222; }));
  CHECK(in_each_lane([](int lane) {
          return __any_sync(everyone, lane == 30) + __any_sync(everyone, lane == 32);
        }) == expected([](int) { return 1; }));
  CHECK(in_each_lane([](int lane) {
          return __all_sync(everyone, lane < 32) + __all_sync(everyone, lane < 31);
        }) == expected([](int) { return 1; }));
  CHECK(in_each_lane([](int lane) { return std::popcount(__match_any_sync(everyone, lane < 10 ? 1 : 0)); }) ==
        expected([](int lane) { return lane < 10 ? 10 : 22; }));
  CHECK(in_each_lane([](int lane) { return __reduce_add_sync(everyone, lane - 20); }) ==
        expected([](int) { return 31 * 16 - 20 * 32; }));
  CHECK(in_each_lane([](int lane) { return __reduce_min_sync(everyone, lane - 20); }) ==
        expected([](int) { return -20; }));
  CHECK(in_each_lane([](int lane) { return static_cast<int>(__activemask()) == 1 << lane; }) ==
        expected([](int) { return 1; }));
}

TEST_CASE("disjoint masks meet on their own, in any number of calls") {
  std::vector<int> sums(64);
  test::run(1, 64, [&] {
    const unsigned lane = threadIdx.x % 32;
    const bool low = lane < 8;
    const unsigned mask = low ? 0x000000ffu : 0xffffff00u;
    int sum = 0;
    if (low) {
      for (int i = 0; i < 5; ++i) sum += __shfl_xor_sync(mask, 1, 1);
    } else {
      for (int i = 0; i < 3; ++i) sum += __shfl_sync(mask, 10, 8);
    }
    sums[threadIdx.x] = sum + __shfl_sync(everyone, 0, 0);
  });
  for (unsigned i = 0; i < 64; ++i) CHECK(sums[i] == (i % 32 < 8 ? 5 : 30));
}

TEST_CASE("lanes of one mask in different calls are a mistake") {
  const auto seen = mistake_of(1, 32, [] {
    if (threadIdx.x < 16) {
      __shfl_xor_sync(everyone, 1, 1);
    } else {
      __shfl_xor_sync(everyone, 1, 1);
    }
  });
  CHECK(seen.kind == "divergent warp call");
  CHECK(seen.text.find("with mask 0xffffffff at ") != std::string::npos);
}

TEST_CASE("lanes that name different masks are a mistake") {
  CHECK(mistake_of(1, 32, [] { __syncwarp(threadIdx.x == 0 ? 0x0000ffffu : everyone); }).kind ==
        "divergent warp call");
}

TEST_CASE("a lane must be in its own mask") {
  CHECK(mistake_of(1, 32, [] {
          if (threadIdx.x < 8) __syncwarp(0x7fu);
        }).kind == "lane not in its mask");
  CHECK(mistake_of(1, 32, [] {
          if (threadIdx.x < 8) __syncwarp(0xffu);
        }).kind == "none");
}

TEST_CASE("a mask with a lane that has returned, or that is beyond the block, is a mistake") {
  const auto tail = [](unsigned mask) {
    return [mask] {
      if (threadIdx.x < 20) __shfl_xor_sync(mask, 1, 1);
    };
  };
  CHECK(mistake_of(1, 32, tail(everyone)).kind == "exited lane");
  CHECK(mistake_of(1, 20, tail(everyone)).kind == "exited lane");
  CHECK(mistake_of(1, 32, tail(0xfffffu)).kind == "none");
  const test::Environment allowed("SIMGPU_EXITED_THREADS", "allowed");
  CHECK(mistake_of(1, 32, tail(everyone)).kind == "none");
  CHECK(mistake_of(1, 20, tail(everyone)).kind == "none");
}

TEST_CASE("a read from a lane outside of the mask is a mistake") {
  CHECK(mistake_of(1, 32, [] {
          if (threadIdx.x < 16) __shfl_down_sync(0xffffu, 1, 1);
        }).kind == "read from a lane outside of the mask");
  CHECK(mistake_of(1, 32, [] {
          if (threadIdx.x < 16) __shfl_down_sync(0xffffu, 1, 1, 16);
        }).kind == "none");
}
