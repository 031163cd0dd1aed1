#include <vector>

#include "tests/simgpu/tests/engine_support.h"

using namespace simgpu;

TEST_CASE("atomics return what was there and leave what they say") {
  int i = 5;
  unsigned u = 5;
  unsigned long long wide = 1ull << 40;
  float f = 1.5f;
  double d = 0.25;
  CHECK(atomicAdd(&i, -7) == 5);
  CHECK(i == -2);
  CHECK(atomicSub(&u, 2u) == 5);
  CHECK(atomicAdd(&wide, 3ull) == 1ull << 40);
  CHECK(wide == (1ull << 40) + 3);
  CHECK(atomicAdd(&f, 2.0f) == 1.5f);
  CHECK(f == 3.5f);
  CHECK(atomicAdd(&d, 0.5) == 0.25);
  CHECK(d == 0.75);
  CHECK(atomicMax(&i, 9) == -2);
  CHECK(atomicMin(&i, 4) == 9);
  CHECK(i == 4);
  CHECK(atomicExch(&f, -1.0f) == 3.5f);
  CHECK(f == -1.0f);
  CHECK(atomicCAS(&i, 3, 8) == 4);
  CHECK(atomicCAS(&i, 4, 8) == 4);
  CHECK(i == 8);
  CHECK(atomicOr(&u, 8u) == 3);
  CHECK(atomicAnd(&u, 9u) == 11);
  CHECK(atomicXor(&u, 1u) == 9);
  CHECK(u == 8);
}

TEST_CASE("atomicInc and atomicDec turn over at their bounds") {
  unsigned u = 2;
  CHECK(atomicInc(&u, 3u) == 2);
  CHECK(atomicInc(&u, 3u) == 3);
  CHECK(u == 0);
  CHECK(atomicDec(&u, 3u) == 0);
  CHECK(u == 3);
  u = 9;
  atomicDec(&u, 3u);
  CHECK(u == 3);
}

TEST_CASE("atomics add in the half types") {
  auto half = __float2half(1.5f);
  atomicAdd(&half, __float2half(2.0f));
  CHECK(__half2float(half) == 3.5f);
  auto pair = __floats2bfloat162_rn(1.0f, 2.0f);
  atomicAdd(&pair, __floats2bfloat162_rn(0.5f, -4.0f));
  CHECK(__bfloat162float(pair.x) == 1.5f);
  CHECK(__bfloat162float(pair.y) == -2.0f);
}

TEST_CASE("all threads of a grid add to one number") {
  float sum = 0;
  test::run(7, 100, [&] { atomicAdd(&sum, 1.0f); });
  CHECK(sum == 700.0f);
}
