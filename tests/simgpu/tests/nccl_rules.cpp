// What NCCL forbids is refused or reported; the right way passes.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/simgpu/tests/nccl_cases.h"
#include "tests/support/catch.h"

using namespace simgpu::testing;
using lockstep::Seconds;
using lockstep::tests::contains;

namespace {

/// The same, when an error that comes later is the test's subject.
void sum_and_look_later(const Rank& own, float* values) {
  if (ncclAllReduce(values, values, count, ncclFloat32, ncclSum, own.comm, own.stream) == ncclInProgress) {
    own.poll();
  }
}

/// The rest of the test when nobody comes: many looks, and none of them finds the stream idle.
void require_stuck(const Rank& own) {
  for (int look = 0; look < 50; ++look) {
    require(cudaStreamQuery(own.stream) == cudaErrorNotReady, "the collective is done without its peer");
  }
}

}  // namespace

TEST_CASE("ranks that sum different numbers of elements are both named", "[simgpu]") {
  const auto outcomes = with_buffer(2, [](Rank& own, float* values) {
    sum(own, values);
    sum(own, values, own.rank == 0 ? 100 : 101);
    cudaStreamSynchronize(own.stream);
  });
  check_all(outcomes, mistake,
            "simgpu: NCCL calls differ: collective 2 of the communicator is ncclAllReduce of");
  CHECK_THAT(outcomes[0].errors,
             contains("of 100 float32 on rank 0") && contains("of 101 float32 on rank 1"));
}

TEST_CASE("ranks that call in another order are both named", "[simgpu]") {
  const bool same_order = GENERATE(false, true);
  const auto outcomes = with_buffer(4, [&](Rank& own, float* values) {
    const auto broadcast = [&] {
      own.complete(ncclBroadcast(values, values, count, ncclFloat32, 0, own.comm, own.stream));
    };
    if (own.rank == 2 && !same_order) broadcast();
    sum(own, values);
    if (own.rank != 2 || same_order) broadcast();
    check(cudaStreamSynchronize(own.stream));
    own.close();
  });
  if (same_order) {
    CHECK(complaints(outcomes) == "");
  } else {
    check_all(outcomes, mistake, "ncclBroadcast of 1000 float32 from rank 0 on rank 2");
  }
}

TEST_CASE("types and roots must agree", "[simgpu]") {
  const auto types = with_buffer(2, [](Rank& own, float* values) {
    own.complete(ncclAllReduce(values, values, 10, own.rank == 0 ? ncclFloat32 : ncclBfloat16, ncclSum,
                               own.comm, own.stream));
    cudaStreamSynchronize(own.stream);
  });
  check_all(types, mistake, "NCCL calls differ");
  const auto roots = with_buffer(2, [](Rank& own, float* values) {
    own.complete(ncclBroadcast(values, values, 10, ncclFloat32, own.rank, own.comm, own.stream));
    cudaStreamSynchronize(own.stream);
  });
  check_all(roots, mistake, "NCCL calls differ");
  const auto receivers = with_buffer(2, [](Rank& own, float* values) {
    own.complete(ncclReduce(values, values, 10, ncclFloat32, ncclSum, own.rank, own.comm, own.stream));
    cudaStreamSynchronize(own.stream);
  });
  check_all(receivers, mistake, "ncclReduce of 10 float32 to rank 1 on rank 1");
}

TEST_CASE("a peer that never comes is waited for; an abort ends that at once", "[simgpu]") {
  const Signal done;
  const auto outcomes = with_buffer(2, [&](Rank& own, float* values) {
    if (own.rank == 1) return done.wait();
    sum(own, values);
    require_stuck(own);
    check(ncclCommAbort(own.comm));
    check(cudaStreamSynchronize(own.stream));
    done.send();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("a killed peer is waited for, or is an error on demand", "[simgpu]") {
  const bool is_error = GENERATE(false, true);
  const auto outcomes = with_buffer(3, [&](Rank& own, float* values) {
    if (is_error) setenv("SIMGPU_NCCL_DEAD_PEER", "error", 1);
    sum(own, values);
    check(cudaStreamSynchronize(own.stream));
    if (own.rank == 1) raise(SIGKILL);
    sum_and_look_later(own, values);
    if (is_error) {
      while (cudaStreamQuery(own.stream) == cudaErrorNotReady && own.poll() == ncclSuccess) {
      }
      require(own.poll() == ncclRemoteError, "no error");
      require(std::string(ncclGetLastError(own.comm)).find("rank 1 is gone") != std::string::npos, "which");
    }
    require_stuck(own);
    check(ncclCommAbort(own.comm));
    check(cudaStreamSynchronize(own.stream));
  });
  CHECK(outcomes[1].code == 137);
  CHECK(outcomes[0].errors + outcomes[2].errors == "");
}

TEST_CASE("a rank that never joins leaves the others in progress", "[simgpu]") {
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(1, [&](int) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    require(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress, "init");
    for (int look = 0; look < 1000; ++look) {
      ncclResult_t state = ncclSuccess;
      check(ncclCommGetAsyncError(comm, &state));
      require(state == ncclInProgress, "done without rank 1");
    }
    check(ncclCommAbort(comm));
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("two ranks on one device are refused, unless their hosts differ", "[simgpu]") {
  const bool hosts_differ = GENERATE(false, true);
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(2, [&](int rank) {
    if (hosts_differ) setenv("NCCL_HOSTID", ("fake" + std::to_string(rank)).c_str(), 1);
    check(cudaSetDevice(0));
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    require(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress, "init");
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) check(ncclCommGetAsyncError(comm, &state));
    require(state == (hosts_differ ? ncclSuccess : ncclInvalidUsage), "state");
    if (hosts_differ) return;
    const std::string text = ncclGetLastError(comm);
    require(text.find("Duplicate GPU detected: rank " + std::to_string(rank)) != std::string::npos, text);
    check(ncclCommAbort(comm));
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("an id that was not passed on whole, and a plain configuration, are refused", "[simgpu]") {
  const auto outcomes = run_ranks(1, [](int) {
    ncclComm_t comm = nullptr;
    ncclUniqueId cut{};
    const ncclUniqueId whole = fresh_id();
    std::copy_n(whole.internal, 64, cut.internal);
    require(ncclCommInitRank(&comm, 1, cut, 0) == ncclInvalidArgument, "a part of an id");
    ncclConfig_t zero{};
    require(ncclCommInitRankConfig(&comm, 1, whole, 0, &zero) == ncclInvalidArgument, "configuration");
    require(ncclCommInitRank(&comm, 1, whole, 1) == ncclInvalidArgument, "rank 1 of 1");
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("a call before the last one was polled to its end is refused", "[simgpu]") {
  const auto outcomes = with_buffer(2, [](Rank& own, float* values) {
    int refused = 0;
    for (int repeat = 0; repeat < 20; ++repeat) {
      const ncclResult_t first =
          ncclAllReduce(values, values, count, ncclFloat32, ncclSum, own.comm, own.stream);
      if (first == ncclInProgress) {
        ++refused;
        require(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, own.comm, own.stream) ==
                    ncclInvalidArgument,
                "not refused");
      }
      own.complete(first);
    }
    require(refused > 0 && refused < 20, "always the same answer");
    check(cudaStreamSynchronize(own.stream));
    require(to_host(values, 1).front() == 1048576.0F, "the refused calls were made");
    own.close();
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("what is not polled is not on the stream", "[simgpu]") {
  const auto outcomes = with_buffer(1, [](Rank& own, float* values) {
    float* const copy = on_device(std::vector<float>(count));
    ncclResult_t result = ncclSuccess;
    for (float value = 1; result != ncclInProgress; ++value) {
      check(cudaMemcpy(values, &value, sizeof(value), cudaMemcpyHostToDevice));
      result = ncclAllReduce(values, copy, count, ncclFloat32, ncclSum, own.comm, own.stream);
      check(cudaStreamSynchronize(own.stream));
      require((to_host(copy, 1).front() == value) == (result == ncclSuccess), "before the poll");
    }
    own.complete(result);
    require(to_host(copy, 1) == to_host(values, 1), "after the poll");
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("an injected failure is an asynchronous error that an abort ends", "[simgpu]") {
  const auto outcomes = with_buffer(2, [](Rank& own, float* values) {
    setenv("SIMGPU_NCCL_FAIL_AT", "2@1", 1);
    sum(own, values);
    sum_and_look_later(own, values);
    if (own.rank == 1) {
      while (own.poll() == ncclSuccess) cudaStreamQuery(own.stream);
      cudaGetLastError();
      require(own.poll() == ncclSystemError, "which");
      require(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, own.comm, own.stream) == ncclSystemError,
              "still in use");
    }
    require_stuck(own);
    check(ncclCommAbort(own.comm));
    check(cudaStreamSynchronize(own.stream));
  });
  CHECK(complaints(outcomes) == "");
}

TEST_CASE("use after the end is reported", "[simgpu]") {
  const bool abort = GENERATE(false, true);
  const auto outcomes = with_buffer(2, [&](Rank& own, float* values) {
    sum(own, values);
    check(cudaStreamSynchronize(own.stream));
    if (abort) {
      check(ncclCommAbort(own.comm));
    } else {
      own.close();
    }
    sum(own, values);
  });
  check_all(outcomes, mistake, abort ? "after ncclCommAbort" : "after ncclCommDestroy");
}

TEST_CASE("a communicator is not destroyed under its collectives or windows", "[simgpu]") {
  const auto pending = with_buffer(2, [](Rank& own, float* values) {
    if (own.rank == 1) return;
    sum(own, values);
    ncclCommDestroy(own.comm);
  });
  check_all({pending[0]}, mistake, "1 collectives are not done");
  const auto window = with_buffer(2, [](Rank& own, float*) {
    void* memory = nullptr;
    ncclWindow_t handle = nullptr;
    check(ncclMemAlloc(&memory, 8192));
    own.complete(ncclCommWindowRegister(own.comm, memory, 8192, &handle, NCCL_WIN_COLL_SYMMETRIC));
    ncclCommDestroy(own.comm);
  });
  check_all(window, mistake, "1 windows are registered");
}

TEST_CASE("two ranks in one process need a group", "[simgpu]") {
  const bool grouped = GENERATE(false, true);
  const ncclUniqueId id = fresh_id();
  const auto outcomes = run_ranks(1, [&](int) {
    setenv("SIMGPU_DEVICES", "2", 1);
    ncclComm_t comms[2];
    float* values[2];
    cudaStream_t streams[2];
    check(ncclGroupStart());
    for (const int rank : {0, 1}) {
      check(cudaSetDevice(rank));
      check(cudaStreamCreate(&streams[rank]));
      values[rank] = on_device(std::vector<float>(count, 1.0F));
      check(ncclCommInitRank(&comms[rank], 2, id, rank));
    }
    check(ncclGroupEnd());
    if (grouped) check(ncclGroupStart());
    for (const int rank : {0, 1}) {
      check(
          ncclAllReduce(values[rank], values[rank], count, ncclFloat32, ncclSum, comms[rank], streams[rank]));
    }
    if (grouped) check(ncclGroupEnd());
    for (const int rank : {0, 1}) check(cudaStreamSynchronize(streams[rank]));
    require(to_host(values[1], 1).front() == 2.0F, "sum");
  });
  if (grouped) {
    CHECK(complaints(outcomes) == "");
  } else {
    check_all(outcomes, mistake, "call both between ncclGroupStart and ncclGroupEnd");
  }
}

TEST_CASE("a group fails with its first refused call, and ends only once", "[simgpu]") {
  const auto outcomes = with_buffer(1, [](Rank& own, float* values) {
    check(ncclGroupStart());
    sum(own, values);
    require(ncclAllReduce(values, values, 10, ncclInt8, ncclSum, own.comm, own.stream) == ncclInvalidArgument,
            "int8");
    require(ncclGroupEnd() == ncclInvalidArgument, "group");
    require(ncclGroupEnd() == ncclInvalidUsage, "a second end");
    check(ncclCommDestroy(own.comm));
  });
  CHECK(complaints(outcomes) == "");
}
