#include "kernels/device.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "kernels/base/error.h"
#include "tests/support/message_of.h"
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

TEST_CASE("all threads of the CPU flush denormals") {
  const auto cpu = make_cpu_device(2);
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
  const bool cpu = device().is_cpu();
  CHECK(device().threads() == (cpu ? 2 : 1));
  CHECK(!device().name().empty());
  CHECK(!device().instruction_set().empty());
  if (!cpu) CHECK(device().instruction_set().starts_with("sm_"));
}

TEST_CASE("host memory of the device is zeroed, and copies take it there and back") {
  constexpr std::size_t count = 1 << 16;
  const auto there = device().allocate_host(count * sizeof(int));
  const auto back = device().allocate_host(count * sizeof(int));
  const auto memory = device().allocate(count * sizeof(int));
  const std::span numbers(static_cast<int*>(there->data()), count);
  REQUIRE(std::ranges::count(numbers, 0) == count);
  std::iota(numbers.begin(), numbers.end(), 1);
  const auto stream = device().make_stream(StreamPriority::high);
  device().copy_to_device(memory->data(), there->data(), there->bytes(), *stream);
  device().copy_to_host(back->data(), memory->data(), back->bytes(), *stream);
  stream->synchronize();
  CHECK(std::memcmp(there->data(), back->data(), there->bytes()) == 0);
  CHECK(device().allocate_host(0)->bytes() == 0);
}

TEST_CASE("an event orders two streams and the host") {
  const int host[] = {1, 2, 3};
  int back[3] = {};
  const auto memory = device().allocate(sizeof host);
  const auto writes = device().make_stream();
  const auto reads = device().make_stream();
  const auto written = device().make_event();
  const auto read = device().make_event();
  device().copy_to_device(memory->data(), host, sizeof host, *writes);
  writes->record(*written);
  reads->wait(*written);
  device().copy_to_host(back, memory->data(), sizeof back, *reads);
  reads->record(*read);
  read->synchronize();
  CHECK(read->reached());
  CHECK(written->reached());
  CHECK(back[2] == 3);
}

TEST_CASE("memory that the device does not have is refused with what was wanted and what is free") {
  const std::size_t wanted = std::size_t{1} << 60;
  try {
    const auto memory = device().allocate(wanted);
    FAIL("allocated " << memory->bytes() << " bytes");
  } catch (const lockstep::DeviceError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find(std::to_string(wanted)) != std::string::npos);
    CHECK(message.find("smaller batch") != std::string::npos);
  }
  CHECK(device().allocate(64)->bytes() == 64);
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

TEST_CASE("a step that cannot be captured says how to go without, and its stream works on") {
  if (!device().has_graphs()) return;
  const auto stream = device().make_stream();
  const std::string message = lockstep::tests::message_of<lockstep::DeviceError>(
      [&] { device().capture(*stream, [] { throw lockstep::DeviceError("too many registers"); }); });
  CHECK_THAT(message, lockstep::tests::contains("--cuda-graph off") &&
                          lockstep::tests::contains("too many registers"));
  const int host = 5;
  int back = 0;
  const auto memory = device().allocate(sizeof host);
  device().copy_to_device(memory->data(), &host, sizeof host, *stream);
  device().copy_to_host(&back, memory->data(), sizeof back, *stream);
  stream->synchronize();
  CHECK(back == 5);
}
