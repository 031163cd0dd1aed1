#include "launcher/ranks.h"

#include "kernels/base/error.h"
#include "tests/support/catch.h"

namespace lockstep::launcher {
namespace {

const Cores four = {.cores = {{0}, {1}, {2}, {3}}, .quota = 0};

TEST_CASE("ranks are given as a number or counted") {
  CHECK(count_ranks("3", four, 2) == 3);
  CHECK(count_ranks("cpu", four, 2) == 4);
  CHECK(count_ranks("gpu", four, 2) == 2);
  CHECK(count_ranks("auto", four, 2) == 2);
  CHECK(count_ranks("auto", four, 0) == 4);
  CHECK_THROWS_AS(count_ranks("gpu", four, 0), DeviceError);
  for (const char* wrong : {"", "0", "-1", "2x", "many", "4097", "4294967297", "99999999999"}) {
    CHECK_THROWS_AS(count_ranks(wrong, four, 2), UsageError);
  }
}

TEST_CASE("ranks that want more threads than their slice has cores are not bound") {
  CHECK(choose_slices(four, 2, "", {}).size() == 2);
  CHECK(choose_slices(four, 2, "2", {}).size() == 2);
  CHECK(choose_slices(four, 2, "3", {}).empty());
}

}  // namespace
}  // namespace lockstep::launcher
