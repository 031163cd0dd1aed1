#include "kernels/base/half.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

namespace lockstep {
namespace {

template <class Half>
Half narrowed(float value) {
  Half half;
  narrow(value, half);
  return half;
}

TEMPLATE_TEST_CASE("every half is itself after widening and narrowing", "[base]", BFloat16, Float16) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const TestType half{static_cast<std::uint16_t>(bits)};
    const float wide = widen(half);
    const TestType back = narrowed<TestType>(wide);
    if (std::isnan(wide)) {
      REQUIRE(std::isnan(widen(back)));
    } else {
      REQUIRE(back.bits == half.bits);
    }
  }
}

TEMPLATE_TEST_CASE("narrowing goes to the nearest, ties to even", "[base]", BFloat16, Float16) {
  for (std::uint32_t bits = 0; bits < 0x7BFF; ++bits) {  // both are finite up to here
    const float low = widen(TestType{static_cast<std::uint16_t>(bits)});
    const float high = widen(TestType{static_cast<std::uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    REQUIRE(narrowed<TestType>(middle).bits == bits + (bits & 1));
    REQUIRE(narrowed<TestType>(std::nextafter(middle, low)).bits == bits);
    REQUIRE(narrowed<TestType>(std::nextafter(middle, high)).bits == bits + 1);
    REQUIRE(narrowed<TestType>(-middle).bits == (0x8000U | (bits + (bits & 1))));
  }
}

TEST_CASE("halves of known values; what is too large is infinite", "[base]") {
  CHECK(narrowed<Float16>(1.0F).bits == 0x3C00);
  CHECK(narrowed<Float16>(-2.0F).bits == 0xC000);
  CHECK(narrowed<Float16>(65504.0F).bits == 0x7BFF);
  CHECK(narrowed<Float16>(65520.0F).bits == 0x7C00);
  CHECK(narrowed<Float16>(std::numeric_limits<float>::infinity()).bits == 0x7C00);
  CHECK(narrowed<BFloat16>(1.0F).bits == 0x3F80);
  CHECK(narrowed<BFloat16>(std::numeric_limits<float>::max()).bits == 0x7F80);
}

}  // namespace
}  // namespace lockstep
