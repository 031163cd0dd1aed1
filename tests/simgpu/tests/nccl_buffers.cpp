// Which memory NCCL takes.
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/simgpu/tests/nccl_cases.h"
#include "tests/support/catch.h"

using namespace simgpu::testing;

TEST_CASE("windows are registered by all ranks or none, in memory of ncclMemAlloc", "[simgpu]") {
  const auto right = with_buffer(2, [](Rank& own, float* values) {
    ncclWindow_t window = nullptr;
    void* handle = nullptr;
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, 10000));
    require(ncclCommWindowRegister(own.comm, values, 100, &window, 0) == ncclInvalidArgument, "any memory");
    own.complete(ncclCommWindowRegister(own.comm, memory, 10000, &window, NCCL_WIN_COLL_SYMMETRIC));
    check(ncclCommRegister(own.comm, values, count, &handle));
    sum(own, static_cast<float*>(memory));
    check(cudaStreamSynchronize(own.stream));
    check(ncclCommDeregister(own.comm, handle));
    check(ncclCommWindowDeregister(own.comm, window));
    check(ncclMemFree(memory));
    own.close();
  });
  CHECK(complaints(right) == "");
  const auto sizes = with_buffer(2, [](Rank& own, float*) {
    ncclWindow_t window = nullptr;
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, 10000));
    own.complete(ncclCommWindowRegister(own.comm, memory, own.rank == 0 ? 100 : 200, &window, 0));
  });
  check_all(sizes, mistake, "registers a window of 100 bytes");
  const auto freed = with_buffer(1, [](Rank& own, float*) {
    ncclWindow_t window = nullptr;
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, 10000));
    own.complete(ncclCommWindowRegister(own.comm, memory, 100, &window, 0));
    ncclMemFree(memory);
  });
  check_all(freed, mistake, "deregister it first");
}

TEST_CASE("windows and registered buffers end where their memory ends", "[simgpu]") {
  const std::size_t more = GENERATE(0U, 1U);
  const auto window = with_buffer(1, [&](Rank& own, float*) {
    ncclWindow_t handle = nullptr;
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, 10000));
    auto* const second_page = static_cast<std::byte*>(memory) + NCCL_WIN_REQUIRED_ALIGNMENT;
    own.complete(ncclCommWindowRegister(own.comm, second_page, 10000 - NCCL_WIN_REQUIRED_ALIGNMENT + more,
                                        &handle, NCCL_WIN_COLL_SYMMETRIC));
    check(ncclCommWindowDeregister(own.comm, handle));
    own.close();
  });
  const auto buffer = with_buffer(1, [&](Rank& own, float* values) {
    void* handle = nullptr;
    check(ncclCommRegister(own.comm, values + 1, (count - 1) * sizeof(float) + more, &handle));
    check(ncclCommDeregister(own.comm, handle));
    own.close();
  });
  if (more == 0) {
    CHECK(complaints(window) + complaints(buffer) == "");
  } else {
    check_all(window, mistake, "ncclCommWindowRegister on rank 0: 5905 bytes reach beyond the end");
    check_all(buffer, mistake, "ncclCommRegister on rank 0: 3997 bytes reach beyond the end");
  }
}

TEST_CASE("nothing is deregistered while a call is in progress", "[simgpu]") {
  const bool as_window = GENERATE(false, true);
  const bool polls = GENERATE(false, true);
  const auto outcomes = with_buffer(1, [&](Rank& own, float* values) {
    ncclWindow_t window = nullptr;
    void* handle = nullptr;
    void* memory = nullptr;
    check(ncclMemAlloc(&memory, 4096));
    own.complete(ncclCommWindowRegister(own.comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    check(ncclCommRegister(own.comm, values, 4000, &handle));
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      result = ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, own.comm, own.stream);
    }
    if (polls) own.complete(result);
    check(as_window ? ncclCommWindowDeregister(own.comm, window) : ncclCommDeregister(own.comm, handle));
  });
  if (polls) {
    CHECK(complaints(outcomes) == "");
  } else {
    check_all(outcomes, mistake,
              as_window ? "ncclCommWindowDeregister on rank 0 while an earlier call"
                        : "ncclCommDeregister on rank 0 while an earlier call");
  }
}

TEST_CASE("an error that an earlier call has left is not for NCCL to find", "[simgpu]") {
  const bool asks = GENERATE(false, true);
  const auto outcomes = with_buffer(1, [&](Rank& own, float* values) {
    cudaSetDevice(99);
    if (asks) cudaGetLastError();
    sum(own, values);
    check(cudaStreamSynchronize(own.stream));
    own.close();
  });
  if (asks) {
    CHECK(complaints(outcomes) == "");
  } else {
    check_all(outcomes, mistake, "error left behind: ncclAllReduce would take cudaErrorInvalidDevice");
  }
}

TEST_CASE("buffers are device memory, and one or apart", "[simgpu]") {
  const auto host = with_buffer(1, [](Rank& own, float* values) {
    std::vector<float> here(10);
    ncclAllReduce(here.data(), values, 10, ncclFloat32, ncclSum, own.comm, own.stream);
  });
  check_all(host, mistake, "the send buffer of 40 bytes is not all device memory");
  const auto beyond = with_buffer(1, [](Rank& own, float* values) {
    ncclAllReduce(values, values, count + 100000, ncclFloat32, ncclSum, own.comm, own.stream);
  });
  check_all(beyond, mistake, "reaches 400000 bytes beyond the end of 4000");
  const auto overlap = with_buffer(1, [](Rank& own, float* values) {
    ncclAllReduce(values, values + 1, 10, ncclFloat32, ncclSum, own.comm, own.stream);
  });
  check_all(overlap, mistake, "the buffers overlap");
  const auto nowhere = with_buffer(1, [](Rank& own, float* values) {
    ncclReduce(values, nullptr, 10, ncclFloat32, ncclSum, 0, own.comm, own.stream);
  });
  check_all(nowhere, mistake, "the receive buffer of 40 bytes is not all device memory");
}

TEST_CASE("a registration may succeed and still be under way", "[simgpu]") {
  const bool polled = GENERATE(false, true);
  // Alone where it is refused: a peer would wait without end.
  const auto outcomes = with_buffer(polled ? 2 : 1, [&](Rank& own, float*) {
    int early = 0;
    constexpr int repeats = 20;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      ncclWindow_t window = nullptr;
      void* memory = nullptr;
      check(ncclMemAlloc(&memory, 10000));
      check(cudaMemset(memory, 0, 10000));
      const ncclResult_t begun =
          ncclCommWindowRegister(own.comm, memory, 10000, &window, NCCL_WIN_COLL_SYMMETRIC);
      require(begun == ncclSuccess || begun == ncclInProgress, "begun");
      require(window == nullptr, "the window is there before the ranks have met");
      early += begun == ncclSuccess ? 1 : 0;
      // Who trusts the answer makes the next call now.
      if (polled || begun == ncclInProgress) own.complete(begun);
      sum(own, static_cast<float*>(memory));
      require(window != nullptr, "no window");
    }
    require(early > 0 && early < repeats, "always the same answer");
  });
  if (polled) {
    CHECK(complaints(outcomes) == "");
  } else {
    check_all(outcomes, 1, "the previous call on this communicator is in progress");
  }
}

TEST_CASE("there may be no window although its registration succeeded", "[simgpu]") {
  const auto [version, hosts, link, given] =
      GENERATE(table<const char*, int, const char*, bool>({{"2.30.7", 1, "", true},
                                                           {"2.30.7", 1, "pcie", false},
                                                           {"2.30.7", 2, "", false},
                                                           {"2.28.9", 2, "", true}}));
  CAPTURE(version, hosts, link);
  const ncclUniqueId id = fresh_id();
  const auto outcomes =
      run_ranks(2, [&, version = version, hosts = hosts, link = link, given = given](int rank) {
        setenv("SIMGPU_NCCL_VERSION", version, 1);
        setenv("SIMGPU_NCCL_LINK", link, 1);
        if (hosts > 1) setenv("NCCL_HOSTID", ("host" + std::to_string(rank)).c_str(), 1);
        Rank own(id, rank, 2);
        ncclWindow_t window = nullptr;
        void* memory = nullptr;
        check(ncclMemAlloc(&memory, 10000));
        own.complete(ncclCommWindowRegister(own.comm, memory, 10000, &window, NCCL_WIN_COLL_SYMMETRIC));
        require((window != nullptr) == given, "window");
        // Who takes it for granted hands null back.
        require(ncclCommWindowDeregister(own.comm, window) == (given ? ncclSuccess : ncclInvalidArgument),
                "back");
        own.close();
      });
  CHECK(complaints(outcomes) == "");
}
