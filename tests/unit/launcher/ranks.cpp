#include "launcher/cores.h"

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
  CHECK(choose_slices(four, 2, 0, {}).size() == 2);
  CHECK(choose_slices(four, 2, 2, {}).size() == 2);
  CHECK(choose_slices(four, 2, 3, {}).empty());
}

const Cores two = {.cores = {{0}, {1}}, .quota = 0};

TEST_CASE("the line at the start tells ranks, cores, threads and binding") {
  CHECK(start_line(two, {{0}, {1}}, 2, "") == "2 ranks on 2 cores: 1 thread each, bound to cores 0 | 1");
  CHECK(start_line(two, {}, 1, "") == "1 rank on 2 cores: 2 threads each, not bound");
  CHECK(start_line(two, {}, 16, "") ==
        "16 ranks on 2 cores: 1 thread each, not bound (more ranks than cores)");
  CHECK(start_line(two, {}, 2, "4") == "2 ranks on 2 cores: OMP_NUM_THREADS=4 each, not bound");
}

}  // namespace
}  // namespace lockstep::launcher
