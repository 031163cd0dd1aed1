#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {

TEST_CASE("bytes go to the device, through a kernel and back") {
  const FreshMachine fresh;
  float* values = make_floats(3);
  set_floats(values, {1, 2, 3});
  ok(launch_add(nullptr, values, 3, 10));
  CHECK(read_floats(values, 3) == std::vector<float>{11, 12, 13});
  ok(cudaFree(values));
}

}  // namespace simgpu::test
