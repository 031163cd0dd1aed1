#include <cmath>
#include <limits>

#include "tests/simgpu/tests/engine_support.h"

TEST_CASE("functions on bits") {
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__clz(1) == 31);
  CHECK(__clz(0) == 32);
  CHECK(__ffs(8) == 4);
  CHECK(__brev(1u) == 0x80000000u);
  CHECK(__umulhi(0x80000000u, 6u) == 3u);
  CHECK(__mulhi(-1, 1) == -1);
  CHECK(__umul64hi(1ull << 63, 6) == 3);
  CHECK(__funnelshift_l(0x80000000u, 1u, 1) == 3u);
  CHECK(__funnelshift_r(0x80000000u, 1u, 1) == 0xc0000000u);
  CHECK(__byte_perm(0x03020100u, 0x07060504u, 0x7531u) == 0x07050301u);
  CHECK(__byte_perm(0x00008000u, 0u, 0x9999u) == 0xffffffffu);
  CHECK(__float_as_uint(1.0f) == 0x3f800000u);
  CHECK(__int_as_float(0x40000000) == 2.0f);
}

TEST_CASE("conversions round as they say and stop at the bounds") {
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(3.5f) == 4);
  CHECK(__float2int_rd(-1.5f) == -2);
  CHECK(__float2int_ru(-1.5f) == -1);
  CHECK(__float2int_rz(-1.5f) == -1);
  CHECK(__float2int_rn(3e9f) == std::numeric_limits<int>::max());
  CHECK(__float2uint_rn(-3.0f) == 0u);
  CHECK(__float2int_rn(std::nanf("")) == 0);
}

TEST_CASE("the fast power of 2 has no subnormal results") {
  using Limits = std::numeric_limits<float>;
  CHECK(simgpu::fast_exp2(3.0f) == 8.0f);
  CHECK(simgpu::fast_exp2(-126.0f) == Limits::min());
  CHECK(simgpu::fast_exp2(-126.5f) == 0.0f);
  CHECK(simgpu::fast_exp2(-140.0f) == 0.0f);
  CHECK(simgpu::fast_exp2(-Limits::infinity()) == 0.0f);
  CHECK(simgpu::fast_exp2(Limits::denorm_min()) == 1.0f);
  CHECK(std::isnan(simgpu::fast_exp2(Limits::quiet_NaN())));
}

TEST_CASE("functions that C has not") {
  CHECK(rsqrtf(4.0f) == 0.5f);
  CHECK(__saturatef(2.0f) == 1.0f);
  CHECK(__saturatef(std::nanf("")) == 0.0f);
  CHECK(std::fabs(__expf(1.0f) - 2.7182818f) < 1e-6f);
  CHECK(std::fabs(__logf(10.0f) - 2.3025851f) < 1e-6f);
  CHECK(__fdividef(3.0f, 2.0f) == 1.5f);
  CHECK(max(1.0f, std::nanf("")) == 1.0f);
  CHECK(min(3, -2) == -2);
  CHECK(max(3u, 9u) == 9u);
}

TEST_CASE("functions of the half types") {
  CHECK(__half2float(hsqrt(__float2half(9.0f))) == 3.0f);
  CHECK(__bfloat162float(hrsqrt(__float2bfloat16(4.0f))) == 0.5f);
  CHECK(__half2float(hfloor(__float2half(-1.5f))) == -2.0f);
  const auto pair = h2rcp(__floats2bfloat162_rn(2.0f, 4.0f));
  CHECK(__bfloat162float(pair.x) == 0.5f);
  CHECK(__bfloat162float(pair.y) == 0.25f);
}
