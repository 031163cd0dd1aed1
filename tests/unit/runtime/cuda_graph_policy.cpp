#include "runtime/step/cuda_graph_policy.h"

#include "kernels/base/error.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::runtime;

namespace {

constexpr std::int64_t millisecond = 1'000'000;

/// The decision of `auto` when every step takes this long.
bool decides(std::int64_t total_ns, std::int64_t launch_ns) {
  CudaGraphPolicy policy("auto", "");
  for (int step = 0; step < 100; ++step) {
    if (policy.observe({.total_ns = total_ns, .launch_ns = launch_ns})) return policy.wants_graphs();
  }
  FAIL("never decided");
  return false;
}

}  // namespace

TEST_CASE("short and launch-bound steps become graphs, long ones do not") {
  CHECK(decides(8 * millisecond, millisecond));
  CHECK_FALSE(decides(9 * millisecond, millisecond));
  CHECK(decides(100 * millisecond, 90 * millisecond));
}

TEST_CASE("the first steps, which load kernels, do not count") {
  CudaGraphPolicy policy("auto", "");
  bool decided = false;
  for (int step = 0; !decided; ++step) {
    decided = policy.observe({.total_ns = step < 5 ? 500 * millisecond : millisecond});
  }
  CHECK(policy.wants_graphs());
  CHECK_FALSE(policy.observe({.total_ns = millisecond}));
}

TEST_CASE("on and off decide by themselves") {
  CHECK(CudaGraphPolicy("on", "").from_the_start());
  CHECK_FALSE(CudaGraphPolicy("off", "").from_the_start());
  CHECK_THROWS_WITH(CudaGraphPolicy("on", "graphs need a GPU"), "--cuda-graph on: graphs need a GPU");
  CudaGraphPolicy impossible("auto", "graphs need a GPU");
  for (int step = 0; step < 100; ++step) CHECK_FALSE(impossible.observe({}));
}

TEST_CASE("what auto came to is kept, and taken from a run that goes on") {
  CudaGraphPolicy policy("auto", "");
  CHECK_FALSE(policy.decision());
  policy.decide(true);
  CHECK(policy.decision() == true);
  CHECK(policy.from_the_start());
  for (int step = 0; step < 100; ++step) CHECK_FALSE(policy.observe({.total_ns = millisecond}));

  CudaGraphPolicy off("off", "");
  off.decide(true);
  CHECK_FALSE(off.from_the_start());
  CHECK_FALSE(off.decision());
}
