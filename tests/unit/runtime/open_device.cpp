#include "runtime/open_device.h"

#include "kernels/base/error.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::runtime;
using kernels::DeviceKind;

namespace {

comm::World local_rank(int rank, int size) {
  comm::World world;
  world.local_rank = rank;
  world.local_size = size;
  return world;
}

}  // namespace

TEST_CASE("a rank takes the GPU of its local rank") {
  CHECK(choose_device("auto", local_rank(0, 1), 0).kind == DeviceKind::cpu);
  CHECK(choose_device("cpu", local_rank(0, 1), 8).kind == DeviceKind::cpu);
  const DeviceChoice third = choose_device("auto", local_rank(2, 4), 4);
  CHECK(third.kind == DeviceKind::cuda);
  CHECK(third.gpu == 2);
  CHECK(third.warning.empty());
  CHECK(choose_device("cuda:3", local_rank(0, 1), 4).gpu == 3);
}

TEST_CASE("a rank that sees one GPU takes it and says so when it may be another's too") {
  const DeviceChoice only = choose_device("cuda", local_rank(1, 2), 1);
  CHECK(only.gpu == 0);
  CHECK(!only.warning.empty());
  CHECK(choose_device("cuda", local_rank(0, 1), 1).warning.empty());
}

TEST_CASE("more ranks than GPUs, and GPUs that are not there, are refused") {
  CHECK_THROWS_AS(choose_device("auto", local_rank(2, 3), 2), DeviceError);
  CHECK_THROWS_AS(choose_device("cuda", local_rank(0, 1), 0), DeviceError);
  CHECK_THROWS_AS(choose_device("cuda:4", local_rank(0, 1), 4), DeviceError);
  CHECK_THROWS_AS(choose_device("cuda:x", local_rank(0, 1), 4), UsageError);
}
