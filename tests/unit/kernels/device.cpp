#include "kernels/device.h"

#include <cstdint>
#include <limits>

#include "tests/unit/kernels/harness.h"

using namespace lockstep::kernels;
using lockstep::kernels::test::device;
using lockstep::kernels::test::download;

TEST_CASE("device memory is aligned, zeroed, and counted") {
  const std::size_t before = device().allocated_bytes();
  {
    const auto memory = device().allocate(1000);
    CHECK(reinterpret_cast<std::uintptr_t>(memory->data()) % 64 == 0);
    CHECK(memory->bytes() == 1000);
    for (const char byte : download<char>(*memory)) REQUIRE(byte == 0);
    CHECK(device().allocated_bytes() == before + 1000);
    CHECK(device().allocate(0)->bytes() == 0);
  }
  CHECK(device().allocated_bytes() == before);
}

TEST_CASE("all threads of the device flush denormals") {
  device();
  int kept = 0;
#pragma omp parallel reduction(+ : kept)
  {
    volatile float least = std::numeric_limits<float>::min();
    const volatile float half = least / 2;
    if (half != 0) ++kept;
  }
  CHECK(kept == 0);
}

TEST_CASE("a device says what it is") {
  CHECK(device().kind() == DeviceKind::cpu);
  CHECK(device().threads() == 2);
  CHECK(!device().name().empty());
  CHECK(!device().instruction_set().empty());
}

TEST_CASE("copies") {
  const int host[] = {1, 2, 3};
  int back[3] = {};
  const auto memory = device().allocate(sizeof host);
  const auto stream = device().make_stream();
  device().copy_to_device(memory->data(), host, sizeof host, *stream);
  device().copy_to_host(back, memory->data(), sizeof back, *stream);
  stream->synchronize();
  CHECK(back[2] == 3);
}
