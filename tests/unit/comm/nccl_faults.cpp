// Ranks that are killed, late, or give up, in an all-reduce by NCCL: who is named, and where the others were.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/unit/comm/gpu_ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

TEST_CASE("a rank that is killed is named by the others, with the bucket", "[nccl]") {
  const int victim = GENERATE(0, 2);
  const std::string run_id = fresh_run_id();
  const auto start = Clock::now();
  auto ranks = start_ranks(3, [&](int rank) {
    GpuRank own(rank, 3, run_id, options(60));
    own.allocate();
    own.sum();
    own.wait();
    own.group->barrier();
    if (rank == victim) raise(SIGKILL);
    own.sum();
    own.wait();
  });
  const std::string pid = std::to_string(ranks[static_cast<std::size_t>(victim)].pid());
  const auto texts = outcomes(std::move(ranks));
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    CHECK_THAT(texts[static_cast<std::size_t>(rank)],
               contains("rank " + std::to_string(victim) + " (pid " + pid + ") closed its connection") &&
                   contains("in NCCL all-reduce 2 (bucket 3, fc1.weight)"));
  }
  CHECK(Clock::now() - start < Seconds(10));
}

TEST_CASE("a rank that does not come is named after the timeout", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const Signal rank_0_left;
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(1));
    own.allocate();
    own.sum();
    own.wait();
    // Alive, and held up by something that is no exchange, until rank 0 has left.
    if (rank == 1) return rank_0_left.await();
    try {
      own.sum();
      own.wait();
    } catch (const CommError&) {
      rank_0_left.give();
      throw;
    }
  });
  CHECK_THAT(errors[0],
             contains("rank 0: NCCL all-reduce 2 (bucket 3, fc1.weight) was not done within 1 s") &&
                 contains("rank 1 has not begun NCCL all-reduce 2 (bucket 3, fc1.weight)"));
  CHECK(errors[1].empty());
}

TEST_CASE("an error that NCCL reports later ends every rank with its words", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_NCCL_FAIL_AT", "2@1", 1);
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    own.sum({.bucket = 0, .what = "fc2.weight"});
    own.sum();
    own.wait();
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains("rank 1: NCCL all-reduce ") &&
                          contains("NCCL: unhandled system error: collective 2 failed") &&
                          !contains("has not begun"));
  }
}

TEST_CASE("a rendezvous that NCCL refuses at once has NCCL's reason", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(1, [&](int rank) {
    GpuRank alone(rank, 1, run_id, options(60, "host"));
    // Its shared memory then cannot be made.
    ::signal(SIGXFSZ, SIG_IGN);
    constexpr rlimit nothing{.rlim_cur = 0, .rlim_max = 0};
    require(::setrlimit(RLIMIT_FSIZE, &nothing) == 0, "setrlimit");
    const std::string said = tests::message_of<DeviceError>(
        [&] { make_communicator(local_world(rank, 1, run_id), options(60, "nccl"), *alone.device); });
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string own = "simgpu-nccl-" + std::to_string(::getpid()) + "-";
      if (file.path().filename().string().starts_with(own)) std::filesystem::remove(file);
    }
    require(
        said.starts_with(
            "NCCL's rendezvous: NCCL: unhandled system error: shared memory: File too large; NCCL_DEBUG") &&
            said.ends_with("--backend host goes without NCCL"),
        said);
  });
  CHECK(errors == std::vector<std::string>(1));
}

TEST_CASE("what NCCL is the first to notice of this rank's GPU is no peer's, and ends all ranks", "[nccl]") {
  const bool has_failed = GENERATE(false, true);  // or NCCL's launch alone
  CAPTURE(has_failed);
  const std::string words =
      has_failed
          ? "cuda: enqueueing: an illegal memory access was encountered (cudaErrorIllegalAddress); this "
            "kernel or one before it failed: --sync-launch names it"
          : "enqueueing: NCCL: unhandled cuda error: enqueueing ncclAllReduce";
  const std::string said = "NCCL all-reduce (bucket 3, fc1.weight): " + words;
  const std::string run_id = fresh_run_id();
  const Signal rank_0_has_memory;
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_POLICY", "eager", 1);
    if (rank == 1) setenv(has_failed ? "SIMGPU_FAIL_KERNEL" : "SIMGPU_FAIL_CALL", "ncclAllReduce@1", 1);
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    rank == 0 ? rank_0_has_memory.give() : rank_0_has_memory.await();
    const auto sum = [&] {
      own.sum();
      own.wait();
    };
    const std::string error =
        rank == 1 ? tests::message_of<DeviceError>(sum) : tests::message_of<CommError>(sum);
    require(error.find(said) != std::string::npos, error);
    require(rank == 1 || error.find("rank 1: NCCL all-reduce") != std::string::npos, error);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("an abort for any reason ends a wait", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const Signal rank_0_sums;
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    if (rank == 1) {
      rank_0_sums.await();
      own.group->abort("data/images.idx is truncated");
      return;
    }
    own.sum();
    rank_0_sums.give();
    own.wait();
  });
  CHECK_THAT(errors[0], contains("rank 1: data/images.idx is truncated") &&
                            contains("rank 0 was in NCCL all-reduce 1 (bucket 3, fc1.weight)"));
}

TEST_CASE("after a failure the group is of no use, and says so", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    own.group->barrier();
    if (rank == 1) return own.group->abort("enough");
    while (!own.group->failed()) {
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      try {
        own.sum();
        own.wait();
        throw std::logic_error("no error");
      } catch (const CommError& error) {
        require(std::string(error.what()).find("enough") != std::string::npos, error.what());
      }
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a rank that is killed is named in a graph's replay too", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    const auto graph = own.device->capture(*own.stream, [&] { own.sum(); });
    graph->launch(*own.stream);
    own.wait();
    own.group->barrier();
    if (rank == 1) raise(SIGKILL);
    graph->launch(*own.stream);
    try {
      own.wait();
    } catch (const CommError& error) {
      // As a program that its watchdog ends: the stream never comes to its end.
      for (const char* words : {"closed its connection", "in NCCL all-reduce 2 (bucket 3, fc1.weight)"}) {
        require(std::string(error.what()).find(words) != std::string::npos, error.what());
      }
      _exit(0);
    }
    throw std::logic_error("no error");
  });
  CHECK(errors[0].empty());
}
