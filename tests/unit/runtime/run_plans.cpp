#include "runtime/run/run_plans.h"

#include "tests/support/catch.h"

using namespace lockstep::runtime;

TEST_CASE("the largest batch that fits is found with few plans") {
  for (const std::int64_t largest : {0, 1, 2, 7, 511, 4095}) {
    int plans = 0;
    const auto fits = [&](std::int64_t batch_size) {
      ++plans;
      return batch_size <= largest;
    };
    CHECK(largest_batch(4096, fits) == largest);
    CHECK(plans <= 12);
  }
  CHECK(largest_batch(1, [](std::int64_t) { return true; }) == 0);
}
