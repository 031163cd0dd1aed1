#include <algorithm>
#include <functional>
#include <vector>

#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;

constexpr std::size_t count = 64;
constexpr std::size_t bytes = count * sizeof(float);

/// Two streams, a buffer with zeros, and another one.
struct TwoStreams {
  FreshMachine fresh;
  cudaStream_t compute = make_stream();
  cudaStream_t exchange = make_stream();
  cudaEvent_t ready = make_event();
  float* gradients = make_floats(count);
  float* others = make_floats(count);

  TwoStreams() {
    ok(cudaMemset(gradients, 0, bytes));
    ok(cudaMemset(others, 0, bytes));
    ok(cudaDeviceSynchronize());
  }
};

}  // namespace

TEST_CASE("a stream that does not wait for what another one writes is told") {
  const TwoStreams t;
  const Mistake mistake = whole_mistake_in([&] {
    launch_add(t.compute, t.gradients, count, 1, "backward");
    launch_add(t.exchange, t.gradients, count, 1, "all-reduce");
  });
  CHECK(mistake.kind == "missing event");
  CHECK_THAT(mistake.text, contains("backward on stream 1 (") && contains("all-reduce on stream 2 ("));
  CHECK_THAT(mistake.text, contains("test_simgpu_machine+0x"));
}

TEST_CASE("a stream that waits for the event may go on with the buffer") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          launch_add(t.compute, t.gradients, count, 1);
          ok(cudaEventRecord(t.ready, t.compute));
          ok(cudaStreamWaitEvent(t.exchange, t.ready, 0));
          launch_add(t.exchange, t.gradients, count, 1);
        }) == "none");
  CHECK(read_floats(t.gradients, count) == std::vector<float>(count, 2));
}

TEST_CASE("an event that is recorded before the kernel orders nothing") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          ok(cudaEventRecord(t.ready, t.compute));
          launch_add(t.compute, t.gradients, count, 1);
          ok(cudaStreamWaitEvent(t.exchange, t.ready, 0));
          launch_add(t.exchange, t.gradients, count, 1);
        }) == "missing event");
}

TEST_CASE("an event stands for its last record at the time of the wait") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          ok(cudaEventRecord(t.ready, t.compute));
          launch_add(t.compute, t.gradients, count, 1);
          ok(cudaEventRecord(t.ready, t.compute));
          ok(cudaStreamWaitEvent(t.exchange, t.ready, 0));
          launch_add(t.compute, t.others, count, 1);
          launch_add(t.exchange, t.gradients, count, 1);
        }) == "none");
}

TEST_CASE("a write must wait for readers of the buffer too") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          launch_copy(t.exchange, t.others, t.gradients, count, "read");
          launch_add(t.compute, t.gradients, count, 1, "write");
        }) == "missing event");
}

TEST_CASE("two streams may read one buffer at a time, or use two buffers") {
  const TwoStreams t;
  float* more = make_floats(count);
  CHECK(mistake_in([&] {
          launch_copy(t.exchange, t.others, t.gradients, count);
          launch_copy(t.compute, more, t.gradients, count);
        }) == "none");
}

TEST_CASE("the host that synchronised orders all that follows") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          launch_add(t.compute, t.gradients, count, 1);
          ok(cudaStreamSynchronize(t.compute));
          launch_add(t.exchange, t.gradients, count, 1);
          ok(cudaEventRecord(t.ready, t.exchange));
          ok(cudaEventSynchronize(t.ready));
          launch_add(t.compute, t.gradients, count, 1);
        }) == "none");
  CHECK(read_floats(t.gradients, count) == std::vector<float>(count, 3));
}

TEST_CASE("the host that saw an event reached by asking has synchronised") {
  const TwoStreams t;
  CHECK(mistake_in([&] {
          launch_add(t.compute, t.gradients, count, 1);
          ok(cudaEventRecord(t.ready, t.compute));
          while (cudaEventQuery(t.ready) == cudaErrorNotReady) continue;
          launch_add(t.exchange, t.gradients, count, 1);
        }) == "none");
}

TEST_CASE("copies count with their exact bytes") {
  const TwoStreams t;
  float* pinned = make_pinned(count);
  const auto copy_half_while = [&](std::size_t first) {
    launch_add(t.compute, t.others, count, 1);
    ok(cudaMemcpyAsync(pinned, t.gradients, bytes / 2, cudaMemcpyDeviceToHost, t.exchange));
    ok(cudaMemsetAsync(t.gradients + first, 0, bytes / 2, t.compute));
  };
  CHECK(mistake_in([&] { copy_half_while(count / 2); }) == "none");
  ok(cudaDeviceSynchronize());
  CHECK(mistake_in([&] { copy_half_while(count / 2 - 1); }) == "missing event");
}

TEST_CASE("a kernel's pointer reaches to the end of a registered range, not of the allocation") {
  const TwoStreams t;
  const auto both_halves = [&] {
    launch_add(t.compute, t.gradients, count / 2, 1);
    launch_add(t.exchange, t.gradients + count / 2, count / 2, 1);
  };
  CHECK(mistake_in(both_halves) == "missing event");
  ok(cudaDeviceSynchronize());
  register_range(t.gradients, bytes / 2);
  register_range(t.gradients + count / 2, bytes / 2);
  CHECK(mistake_in(both_halves) == "none");
}

TEST_CASE("the default stream waits for blocking streams, and they wait for it") {
  const TwoStreams t;
  const auto through_default_stream = [&](unsigned flags) {
    const cudaStream_t first = make_stream(flags);
    const cudaStream_t second = make_stream(flags);
    launch_add(first, t.gradients, count, 1);
    launch_add(nullptr, t.gradients, count, 1);
    launch_add(second, t.gradients, count, 1);
  };
  CHECK(mistake_in([&] { through_default_stream(cudaStreamDefault); }) == "none");
  CHECK(read_floats(t.gradients, count) == std::vector<float>(count, 3));
  CHECK(mistake_in([&] { through_default_stream(cudaStreamNonBlocking); }) == "missing event");
}

TEST_CASE("a plain copy from pageable memory may be on its way when it returns, one from pinned memory not") {
  const TwoStreams t;
  const std::vector<float> pageable(count, 1);
  float* const pinned = make_pinned(count);
  std::fill_n(pinned, count, 1.0F);
  const auto copy_and_add = [&](const float* from, const std::function<void()>& wait) {
    return mistake_in([&] {
      ok(cudaMemcpy(t.gradients, from, bytes, cudaMemcpyHostToDevice));
      wait();
      launch_add(t.compute, t.gradients, count, 1);
      ok(cudaStreamSynchronize(t.compute));
    });
  };
  CHECK(copy_and_add(pinned, [] {}) == "none");
  CHECK(copy_and_add(pageable.data(), [] { ok(cudaStreamSynchronize(nullptr)); }) == "none");
  CHECK(read_floats(t.gradients, count) == std::vector<float>(count, 2));
  CHECK(copy_and_add(pageable.data(), [] {}) == "missing event");
}

TEST_CASE("a plain copy from pageable memory waits for what its stream held before") {
  const TwoStreams t;
  const std::vector<float> pageable(count, 1);
  CHECK(mistake_in([&] {
          launch_add(nullptr, t.others, count, 1);
          ok(cudaMemcpy(t.gradients, pageable.data(), bytes, cudaMemcpyHostToDevice));
          launch_add(t.compute, t.others, count, 1);
        }) == "none");
}

TEST_CASE("memory that is allocated in a stream belongs to others after an event") {
  const TwoStreams t;
  void* block = nullptr;
  ok(cudaMallocAsync(&block, bytes, t.compute));
  auto* values = static_cast<float*>(block);
  CHECK(mistake_in([&] { launch_add(t.exchange, values, count, 1); }) == "missing event");
  ok(cudaEventRecord(t.ready, t.compute));
  ok(cudaStreamWaitEvent(t.exchange, t.ready, 0));
  CHECK(mistake_in([&] { launch_add(t.exchange, values, count, 1); }) == "none");
  CHECK(mistake_in([&] { cudaFreeAsync(block, t.compute); }) == "use after free in flight");
  CHECK(mistake_in([&] { cudaFreeAsync(block, t.exchange); }) == "none");
  CHECK(mistake_in([&] { launch_add(t.exchange, values, count, 1); }) == "use after free");
}

}  // namespace simgpu::test
