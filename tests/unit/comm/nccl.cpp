// NCCL's part of the contract on the CUDA machine in software: a process for each rank, a simulated GPU each.
#include <cmath>
#include <vector>

#include "kernels/base/error.h"
#include "tests/simgpu/operation.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/gpu_ranks.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

namespace {

std::vector<float> inputs(int rank, std::size_t shift) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = element<float>(rank, i + shift);
  return values;
}

}  // namespace

TEST_CASE("sums by NCCL and through the host are the host's", "[nccl]") {
  const int size = GENERATE(1, 2, 4);
  const std::string backend = GENERATE("nccl", "host");
  const std::string run_id = fresh_run_id();
  CAPTURE(size, backend);
  const auto errors = run_ranks(size, [&](int rank) {
    GpuRank own(rank, size, run_id, options(30, backend));
    const bool solo = size == 1 && backend == "host";
    require(own.group->backend() == (solo ? "solo" : backend), "backend");
    constexpr std::size_t buckets = 3;
    constexpr std::size_t room = (elements * sizeof(float) + 63) / 64 * 64;
    own.arena = own.group->allocate_arena(DType::f32, buckets * room / sizeof(float));
    require(own.arena->bytes() == buckets * room, "size");
    for (const float value : own.read(room)) require(value == 0, "not zeroed");
    for (int step = 0; step < 3; ++step) {
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) own.fill(bucket * room, inputs(rank, bucket));
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        own.group->all_reduce(
            {own.arena.get(), static_cast<std::int64_t>(bucket * room / sizeof(float)), elements}, fc1,
            *own.stream);
      }
      own.wait();
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        const auto sums = own.read(bucket * room);
        for (std::size_t i = 0; i < elements; ++i) {
          double magnitude = 0;
          for (int peer = 0; peer < size; ++peer) magnitude += std::fabs(element<float>(peer, i + bucket));
          const float expected = reference<float>(0, size, i + bucket);
          require(std::fabs(sums[i] - expected) <= 1e-6 * magnitude, "element " + std::to_string(i));
        }
      }
    }
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("gradients go to the host and back through pinned memory, in order", "[nccl]") {
  const std::string policy = GENERATE("eager", "lazy", "random:1");
  CAPTURE(policy);
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_POLICY", policy.c_str(), 1);
    GpuRank own(rank, 2, run_id, options(30, "host"));
    own.allocate();
    require(simgpu::call_count("cudaHostRegister") == 1, "not pinned");
    for (int step = 1; step <= 3; ++step) {
      own.fill(0, std::vector<float>(elements, static_cast<float>(step * (rank + 1))));
      own.sum();
      own.wait();
      require(own.read(0) == std::vector<float>(elements, static_cast<float>(3 * step)), "sum");
    }
    own.arena.reset();
    require(simgpu::call_count("cudaHostUnregister") == 1, "still registered");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a graph holds reduce-scatter and all-gather, with equal shards and without", "[nccl]") {
  const int size = 3;
  const std::int64_t count = GENERATE(3 * 16 * 10, 1000);
  CAPTURE(count);
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(size, [&](int rank) {
    GpuRank own(rank, size, run_id, options(30, "nccl"));
    own.allocate();
    const ArenaRange range{own.arena.get(), 16, count};
    const auto graph = own.device->capture(*own.stream, [&] {
      own.group->reduce_scatter(range, fc1, *own.stream);
      own.group->all_gather(range, fc1, *own.stream);
    });
    for (int step = 1; step <= 3; ++step) {
      own.fill(0, std::vector<float>(elements, static_cast<float>(step * (rank + 1))));
      graph->launch(*own.stream);
      own.wait();
      const auto values = own.read(0);
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(elements); ++i) {
        const bool is_inside = i >= 16 && i < 16 + count;
        const auto expected = static_cast<float>(is_inside ? step * 6 : step * (rank + 1));
        require(values[static_cast<std::size_t>(i)] == expected, "element " + std::to_string(i));
      }
    }
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("arenas may go before their group and after it", "[nccl]") {
  const bool first = GENERATE(true, false);
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(30, "nccl"));
    own.allocate();
    auto other = own.group->allocate_arena(DType::bf16, 100);
    own.sum();
    own.wait();
    other.reset();
    own.sum();  // the others stay
    own.wait();
    if (first) own.arena.reset();
    own.group.reset();
    own.arena.reset();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("where there are no windows arenas are plain buffers", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_NCCL_LINK", "pcie", 1);
    GpuRank own(rank, 2, run_id, options(30, "nccl"));
    own.allocate();
    own.fill(0, std::vector<float>(elements, static_cast<float>(rank + 1)));
    own.sum();
    own.wait();
    require(own.read(0) == std::vector<float>(elements, 3), "sum");
    own.arena.reset();
    own.allocate();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("no graphs hold collectives between hosts before NCCL can replay them", "[nccl]") {
  const std::string version = GENERATE("2.28.9", "2.30.4");
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_NCCL_VERSION", version.c_str(), 1);
    setenv("NCCL_HOSTID", ("host" + std::to_string(rank)).c_str(), 1);
    GpuRank own(rank, 2, run_id, options(30, "nccl"));
    own.allocate();
    own.fill(0, std::vector<float>(elements, static_cast<float>(rank + 1)));
    own.sum();
    own.wait();
    const std::string obstacle = own.group->obstacle_to_graphs();
    if (version == "2.28.9") {
      require(obstacle.starts_with("NCCL 2.28.9 may hang in graphs"), obstacle);
      return own.group->barrier();
    }
    require(obstacle.empty(), obstacle);
    const auto graph = own.device->capture(*own.stream, [&] { own.sum(); });
    graph->launch(*own.stream);
    own.wait();
    require(own.read(0) == std::vector<float>(elements, 6), "sum");
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("ranges outside of the GPU's arena are refused", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(30, "nccl"));
    own.allocate();
    own.group->all_reduce({own.arena.get(), 16, elements}, fc1, *own.stream);
  });
  for (const std::string& error : errors) CHECK_THAT(error, contains("not in the arena"));
}
