#include <limits>
#include <vector>

#include "kernels/base/deadline.h"
#include "kernels/base/division.h"
#include "kernels/base/error.h"
#include "kernels/base/fast_division.h"
#include "kernels/base/number.h"
#include "kernels/base/shape.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace lockstep;
using tests::message_of;

TEST_CASE("a division that rounds up, and the multiple that it stands for") {
  CHECK(parts_of(0, 4) == 0);
  CHECK(parts_of(-3, 4) == 0);
  CHECK(parts_of(1, 4) == 1);
  CHECK(parts_of(4, 4) == 1);
  CHECK(parts_of(std::int64_t{1} << 40, 3) == 366503875926);
  CHECK(rounded_up(std::size_t{65}, 64) == 128);
  CHECK(rounded_up(std::size_t{64}, 64) == 64);
  CHECK(rounded_up(std::int64_t{0}, 7) == 0);
}

TEST_CASE("a division by a product and a shift, of numbers below 2^31 around multiples and between") {
  constexpr std::uint32_t limit = std::uint32_t{1} << 31;
  for (const std::uint32_t divisor :
       {1U, 2U, 3U, 5U, 7U, 8U, 9U, 224U, 641U, 50176U, 65535U, 65536U, 65537U, (1U << 30) - 1, 1U << 30,
        (1U << 30) + 1, limit - 2, limit - 1, limit}) {
    const FastDivision division(divisor);
    CHECK(division.divisor() == divisor);
    const std::uint32_t greatest = (limit - 1) / divisor;
    bool equal = true;
    const auto compare = [&](std::uint32_t number) {
      if (number < limit) equal = equal && division.quotient(number) == number / divisor;
    };
    for (const std::uint32_t multiple : {0U, 1U, 2U, 3U, greatest / 2, greatest - (greatest > 0), greatest}) {
      for (const std::uint32_t off : {0U, 1U, divisor - 1}) compare(multiple * divisor + off);
    }
    compare(limit - 1);
    for (std::uint32_t number = divisor % 1000; number < limit; number += 99991) compare(number);
    INFO(divisor);
    CHECK(equal);
  }
  CHECK(FastDivision().quotient(limit - 1) == limit - 1);
}

TEST_CASE("ascending numbers as ranges, as far as they fit") {
  const std::vector<int> numbers{3, 120, 121, 122, 7, 9};
  CHECK(ranges_of({}, 100).empty());
  CHECK(ranges_of(numbers, 100) == "3,120-122,7,9");
  CHECK(ranges_of(numbers, 100, ", ", ", ...") == "3, 120-122, 7, 9");
  CHECK(ranges_of(numbers, 11) == "3,120-122,7");
  CHECK(ranges_of(numbers, 10) == "3,120-122");
  CHECK(ranges_of(numbers, 8, ", ", ", ...") == "3, ...");
}

TEST_CASE("a number in its range, whole and as typed") {
  constexpr Range<std::int64_t> small{1, 4096};
  CHECK(number_in("1", small) == 1);
  CHECK(number_in("4096", small) == 4096);
  CHECK(number_in("1e10", Range<double>{0, 1e12}) == 1e10);
  const auto refusal = [](const char* text, auto range) {
    return message_of<UsageError>([&] { number_in(text, range); });
  };
  CHECK(refusal("0", small) == "0 is not in the range 1 to 4096");
  CHECK(refusal("4294967297", small) == "4294967297 is not in the range 1 to 4096");
  CHECK(refusal("99999999999999999999", small) == "99999999999999999999 is not in the range 1 to 4096");
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e1", "x"}) {
    CHECK(refusal(text, small) == "'" + std::string(text) + "' is not a whole number");
  }
  constexpr Range<double> real{0, 1e12};
  CHECK(refusal("1e300", real) == "1e300 is not in the range 0 to 1000000000000");
  CHECK(refusal("1e400", real) == "1e400 is not in the range 0 to 1000000000000");
  for (const char* text : {"", "inf", "nan", "-inf", "1x"}) {
    CHECK(refusal(text, real) == "'" + std::string(text) + "' is not a number");
  }
}

TEST_CASE("the number that a text begins with") {
  CHECK(leading_number<int>("100000 kB") == 100000);
  CHECK(leading_number<int>("7") == 7);
  CHECK(leading_number<int>("-1") == -1);
  for (const char* text : {"", "max 100000", " 7", "99999999999999999999"})
    CHECK(leading_number<int>(text) == 0);
}

TEST_CASE("a long deadline has not passed: it saturates") {
  for (const double seconds : {1e10, 1e12, 1e18, 1e300, std::numeric_limits<double>::infinity()}) {
    INFO(seconds);
    const Deadline deadline = Deadline::in(Seconds(seconds));
    CHECK_FALSE(deadline.passed());
    CHECK(deadline.left() > Seconds(1e9));
    CHECK_FALSE(Deadline::in(deadline.left() + Seconds(1)).passed());
  }
  CHECK(Deadline::in(Seconds(0)).passed());
  CHECK(clock_duration(Seconds(2)) == std::chrono::seconds(2));
}

TEST_CASE("sizes whose product is over 2^40 are refused, those that would overflow and negative ones too") {
  constexpr std::int64_t large = std::int64_t{1} << 32;
  CHECK(Shape{2, 3, 4}.elements() == 24);
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{large, 256}.elements() == most_bytes);
  for (const Shape& shape : {Shape{large, 257}, Shape{large, large}, Shape{large, large, large}}) {
    CHECK(message_of<UsageError>([&] { static_cast<void>(shape.elements()); }) ==
          "shape " + shape.str() + " has more than 2^40 elements: give smaller sizes");
  }
  for (const Shape& shape : {Shape{-2}, Shape{-64, -2}, Shape{0, -1}}) {
    CHECK(message_of<UsageError>([&] { static_cast<void>(shape.elements()); }) ==
          "shape " + shape.str() + " has a negative size: give sizes from 0 on");
  }
  CHECK(bytes_of(DType::f16, {3, 5}) == 30);
  CHECK(bytes_of(DType::f32, {large, 64}) == static_cast<std::size_t>(most_bytes));
  CHECK_THROWS_AS(bytes_of(DType::f32, {large, 65}), UsageError);
  CHECK(message_of<UsageError>([] { bytes_of_all("inputs of a batch", 1 << 20, 1 << 21); }) ==
        "inputs of a batch: 1048576 times 2097152 bytes are more than 2^40: give smaller sizes");
}
