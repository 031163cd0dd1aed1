#include "runtime/machine/open_device.h"

#include "kernels/base/error.h"
#include "tests/support/catch.h"

using namespace lockstep;
using namespace lockstep::runtime;

namespace {

comm::World local_rank(int rank, int size) {
  comm::World world;
  world.local_rank = rank;
  world.local_size = size;
  return world;
}

}  // namespace

TEST_CASE("a rank takes the GPU of its local rank") {
  CHECK(choose_device("auto", local_rank(0, 1), 0, false).kind == DeviceKind::cpu);
  CHECK(choose_device("cpu", local_rank(0, 1), 8, false).kind == DeviceKind::cpu);
  const DeviceSelection third = choose_device("auto", local_rank(2, 4), 4, false);
  CHECK(third.kind == DeviceKind::cuda);
  CHECK(third.gpu == 2);
  CHECK(third.warning.empty());
  CHECK(choose_device("cuda:3", local_rank(0, 1), 4, false).gpu == 3);
}

TEST_CASE("a rank that sees one GPU takes it and warns") {
  const DeviceSelection only = choose_device("cuda", local_rank(1, 2), 1, false);
  CHECK(only.gpu == 0);
  CHECK(!only.warning.empty());
  CHECK(choose_device("cuda", local_rank(0, 1), 1, false).warning.empty());
  CHECK(choose_device("cuda", local_rank(1, 2), 1, true).warning.empty());
}

TEST_CASE("ranks that may share GPUs take them round robin") {
  for (int rank = 0; rank < 5; ++rank)
    CHECK(choose_device("cuda", local_rank(rank, 5), 2, true).gpu == rank % 2);
}

TEST_CASE("more ranks than GPUs, and GPUs that are not there, are refused") {
  for (int rank = 0; rank < 3; ++rank) {
    CHECK_THROWS_AS(choose_device("auto", local_rank(rank, 3), 2, false), UsageError);
  }
  CHECK_THROWS_AS(choose_device("cuda", local_rank(0, 1), 0, false), DeviceError);
  CHECK_THROWS_AS(choose_device("cuda:4", local_rank(0, 1), 4, true), DeviceError);
  CHECK_THROWS_AS(choose_device("cuda:x", local_rank(0, 1), 4, true), UsageError);
}
