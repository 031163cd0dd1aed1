// What the host must not touch: each program runs in a process of its own, which the machine ends.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/simgpu/machine/machine.h"
#include "tests/simgpu/tests/machine_support.h"
#include "tests/support/catch.h"

namespace simgpu::test {
namespace {

using lockstep::tests::contains;

constexpr std::size_t count = 3000;  // several pages
constexpr std::size_t bytes = count * sizeof(float);

}  // namespace

TEST_CASE("the host does not read or write device memory") {
  CHECK(end_of_process([] { read_floats(make_floats(1), 1); }) == "0 ");
  CHECK_THAT(end_of_process([] { *const_cast<volatile float*>(make_floats(1)) = 1; }),
             contains("86 simgpu: host dereferences device memory: the host touches device address 0x") &&
                 contains(" at test_simgpu_machine+0x"));
  const auto after_kernel = [] {
    float* values = make_floats(1);
    set_floats(values, {1});
    launch_add(nullptr, values, 1, 1);
    cudaDeviceSynchronize();
    _exit(*const_cast<volatile float*>(values) == 2 ? 0 : 1);
  };
  CHECK_THAT(end_of_process(after_kernel), contains("86 simgpu: host dereferences device memory"));
}

TEST_CASE("the host reads a pinned buffer after it waited for the copy") {
  const auto copy_and_read = [](bool waits, std::size_t place) {
    return end_of_process([=] {
      float* values = make_floats(count);
      cudaMemset(values, 0, bytes);
      volatile float* pinned = make_pinned(count + 1);
      pinned[count] = 5;
      const cudaStream_t stream = make_stream();
      cudaDeviceSynchronize();
      cudaMemcpyAsync(const_cast<float*>(pinned), values, bytes, cudaMemcpyDeviceToHost, stream);
      if (waits) cudaStreamSynchronize(stream);
      if (pinned[place] != (place == count ? 5 : 0)) _exit(1);
    });
  };
  const std::string kind = "86 simgpu: host reads pinned buffer before sync: ";
  CHECK(copy_and_read(true, 0) == "0 ");
  CHECK_THAT(copy_and_read(false, 0), contains(kind));
  CHECK_THAT(copy_and_read(false, 1500), contains(kind) && contains("cudaMemcpyAsync on stream 1 ("));
  CHECK(copy_and_read(false, count) == "0 ");  // beside the copy
}

TEST_CASE("a small pinned buffer of its own is watched too") {
  const auto read_loss = [](bool waits) {
    return end_of_process([=] {
      float* loss = make_floats(1);
      cudaMemset(loss, 0, 4);
      volatile float* pinned = make_pinned(1);
      const cudaStream_t stream = make_stream();
      cudaDeviceSynchronize();
      cudaMemcpyAsync(const_cast<float*>(pinned), loss, 4, cudaMemcpyDeviceToHost, stream);
      const cudaEvent_t copied = make_event();
      cudaEventRecord(copied, stream);
      if (waits) cudaEventSynchronize(copied);
      if (*pinned != 0) _exit(1);
    });
  };
  CHECK(read_loss(true) == "0 ");
  CHECK_THAT(read_loss(false), contains("86 simgpu: host reads pinned buffer before sync: "));
}

TEST_CASE("the host writes a pinned buffer after the copy from it is done, and may read it meanwhile") {
  const auto copy_and_write = [](bool waits, bool writes) {
    return end_of_process([=] {
      float* values = make_floats(count);
      volatile float* pinned = make_pinned(count);
      for (std::size_t i = 0; i < count; ++i) pinned[i] = 1;
      const cudaStream_t stream = make_stream();
      cudaMemcpyAsync(values, const_cast<float*>(pinned), bytes, cudaMemcpyHostToDevice, stream);
      if (waits) cudaStreamSynchronize(stream);
      if (pinned[7] != 1) _exit(1);
      if (writes) pinned[7] = 2;
      if (read_floats(values, 8)[7] != 1) _exit(2);
    });
  };
  CHECK(copy_and_write(true, true) == "0 ");
  CHECK(copy_and_write(false, false) == "0 ");
  CHECK_THAT(copy_and_write(false, true), contains("86 simgpu: host writes pinned buffer in use: "));
}

TEST_CASE("what a kernel reads and writes in pinned memory is watched like a copy's") {
  const auto copy_by_kernel = [](bool waits, bool reads_result, bool writes_input) {
    return end_of_process([=] {
      volatile float* input = make_pinned(1);
      volatile float* result = make_pinned(1);
      *input = 3;
      *result = 0;
      const cudaStream_t stream = make_stream();
      launch_copy(stream, const_cast<float*>(result), const_cast<float*>(input), 1);
      if (waits) cudaStreamSynchronize(stream);
      if (reads_result && *result != 3) _exit(1);
      if (writes_input) *input = 4;
      cudaStreamSynchronize(stream);
      if (*result != 3) _exit(2);
    });
  };
  CHECK(copy_by_kernel(true, true, true) == "0 ");
  CHECK(copy_by_kernel(false, false, false) == "0 ");
  CHECK_THAT(copy_by_kernel(false, true, false),
             contains("86 simgpu: host reads pinned buffer before sync: ") && contains("copy on stream 1 ("));
  CHECK_THAT(copy_by_kernel(false, false, true), contains("86 simgpu: host writes pinned buffer in use: "));
}

TEST_CASE("mapped memory may be watched while the device writes it") {
  CHECK(end_of_process([] {
          void* block = nullptr;
          cudaHostAlloc(&block, 4, cudaHostAllocMapped);
          volatile auto* word = static_cast<int*>(block);
          *word = 0;
          const cudaStream_t stream = make_stream();
          float* value = make_floats(1);
          cudaMemset(value, 0xFF, 4);
          cudaDeviceSynchronize();
          cudaMemcpyAsync(block, value, 4, cudaMemcpyDeviceToHost, stream);
          while (*word == 0) cudaStreamQuery(stream);
        }) == "0 ");
}

TEST_CASE("the host does not touch pinned memory that was freed, or beyond its end") {
  CHECK_THAT(end_of_process([] {
               volatile float* pinned = make_pinned(1);
               cudaFreeHost(const_cast<float*>(pinned));
               pinned[0] = 1;
             }),
             contains("86 simgpu: use after free: "));
  CHECK_THAT(end_of_process([] { const_cast<volatile float*>(make_pinned(1024))[1024] = 1; }),
             contains("86 simgpu: out of bounds: "));
}

TEST_CASE("other faults are left to whoever cares for them") {
  CHECK(end_of_process([] {
          volatile std::uintptr_t nowhere = 64;
          *reinterpret_cast<volatile int*>(nowhere) = static_cast<int>(call_count("cudaMalloc"));
        }) == "139 ");
}

TEST_CASE("what is left behind is told when the process ends") {
  const FreshMachine fresh;
  CHECK(mistake_in([] { machine().report_leaks(); }) == "none");
  const auto leak = [](const std::function<void()>& make, const std::function<void()>& give_back) {
    make();
    const Mistake mistake = whole_mistake_in([] { machine().report_leaks(); });
    give_back();
    CHECK(mistake_in([] { machine().report_leaks(); }) == "none");
    return mistake.kind + ": " + mistake.text;
  };
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* block = nullptr;
  CHECK_THAT(leak([&] { cudaStreamCreate(&stream); }, [&] { cudaStreamDestroy(stream); }),
             contains("leaked handle: 1 not given back") && contains("stream 1 from test_simgpu_machine+0x"));
  CHECK_THAT(leak([&] { cudaEventCreate(&event); }, [&] { cudaEventDestroy(event); }),
             contains("an event from test_simgpu_machine+0x"));
  CHECK_THAT(leak([&] { cudaMalloc(&block, 12); }, [&] { cudaFree(block); }),
             contains("12 bytes of device 0 (0x"));
  CHECK_THAT(leak([&] { cudaMallocHost(&block, 12); }, [&] { cudaFreeHost(block); }),
             contains("12 bytes of pinned memory"));
}

TEST_CASE("a program that ends with SIMGPU_LEAKS=1 is looked at") {
  const auto code_when = [](const std::string& deed) {
    const int status = std::system(("SIMGPU_LEAKS=1 " LEAK_PROGRAM " " + deed + " 2>/dev/null").c_str());
    return WEXITSTATUS(status);
  };
  CHECK(code_when("gives-back") == 0);
  CHECK(code_when("leaves") == 86);
}

}  // namespace simgpu::test
