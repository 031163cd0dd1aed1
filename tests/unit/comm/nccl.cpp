// NCCL's part of the contract on the CUDA machine in software: a process for each rank, a simulated GPU each.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cuda/library.h"
#include "tests/simgpu/operation.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/ranks.h"
#include "tests/unit/comm/reference.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

namespace {

constexpr std::size_t count = 5000;
constexpr ExchangeLabel fc1{.bucket = 3, .first_parameter = "fc1.weight"};

/// A rank with its GPU, in a process of its own.
struct GpuRank {
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<kernels::Stream> stream;
  std::unique_ptr<Communicator> group;
  std::span<std::byte> arena;

  GpuRank(int rank, int size, const std::string& run_id, const CommOptions& options, int gpus = 0) {
    setenv("SIMGPU_DEVICES", std::to_string(gpus > 0 ? gpus : size).c_str(), 1);
    device = kernels::make_cuda_device(gpus > 0 ? rank % gpus : rank);
    stream = device->make_stream(kernels::StreamPriority::high);
    group = make_communicator(local_world(rank, size, run_id), options, *device);
  }

  void fill(std::size_t offset, const std::vector<float>& values) {
    device->copy_to_device(arena.data() + offset, values.data(), values.size() * sizeof(float), *stream);
    stream->synchronize();
  }
  std::vector<float> read(std::size_t offset) {
    std::vector<float> values(count);
    device->copy_to_host(values.data(), arena.data() + offset, count * sizeof(float), *stream);
    stream->synchronize();
    return values;
  }
  void sum(ExchangeLabel label = fc1) { group->all_reduce(0, count, DType::f32, label, *stream); }
  void wait() {
    const auto event = device->make_event();
    stream->record(*event);
    group->wait(*event);
  }
  void allocate() { arena = group->allocate_arena(count * sizeof(float)); }
};

std::vector<RankProcess> start_ranks(int size, const std::function<void(int rank)>& body) {
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back([=] { body(rank); });
  return ranks;
}

std::vector<std::string> outcomes(std::vector<RankProcess> ranks) {
  std::vector<std::string> texts;
  for (RankProcess& rank : ranks) texts.push_back(rank.outcome());
  return texts;
}

std::vector<std::string> run_ranks(int size, const std::function<void(int rank)>& body) {
  return outcomes(start_ranks(size, body));
}

CommOptions options(double seconds, const std::string& backend = "auto") {
  return {.timeout = Seconds(seconds), .backend = backend};
}

CommOptions sharing(CommOptions given) {
  given.gpu_sharing = true;
  return given;
}

void require(bool condition, const std::string& text) {
  if (!condition) throw std::runtime_error(text);
}

std::vector<float> inputs(int rank, std::size_t shift) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = element<float>(rank, i + shift);
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
    constexpr std::size_t room = (count * sizeof(float) + 63) / 64 * 64;
    own.arena = own.group->allocate_arena(buckets * room);
    require(own.arena.size() == buckets * room, "size");
    for (const float value : own.read(room)) require(value == 0, "not zeroed");
    for (int step = 0; step < 3; ++step) {
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) own.fill(bucket * room, inputs(rank, bucket));
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        own.group->all_reduce(bucket * room, count, DType::f32, fc1, *own.stream);
      }
      own.wait();
      for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
        const auto sums = own.read(bucket * room);
        for (std::size_t i = 0; i < count; ++i) {
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
      own.fill(0, std::vector<float>(count, static_cast<float>(step * (rank + 1))));
      own.sum();
      own.wait();
      require(own.read(0) == std::vector<float>(count, static_cast<float>(3 * step)), "sum");
    }
    own.group.reset();
    require(simgpu::call_count("cudaHostUnregister") == 1, "still registered");
  });
  CHECK(errors == std::vector<std::string>(2));
}

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
  int done[2];
  REQUIRE(pipe(done) == 0);
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(1));
    own.allocate();
    own.sum();
    own.wait();
    char byte = 0;
    if (rank == 1) {
      // Alive, and held up by something that is no exchange, until rank 0 has left.
      require(read(done[0], &byte, 1) == 1, "read");
      return;
    }
    try {
      own.sum();
      own.wait();
    } catch (const CommError&) {
      require(write(done[1], &byte, 1) == 1, "write");
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
    own.sum({.bucket = 0, .first_parameter = "fc2.weight"});
    own.sum();
    own.wait();
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains("rank 1: NCCL all-reduce ") &&
                          contains("NCCL: unhandled system error: collective 2 failed") &&
                          !contains("has not begun"));
  }
}

TEST_CASE("an abort for any reason ends a wait", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(60));
    own.allocate();
    if (rank == 1) {
      own.group->abort("data/images.idx is truncated");
      return;
    }
    own.sum();
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

TEST_CASE("ranks that share a GPU are refused, or exchange through the host where they may", "[nccl]") {
  const std::string run_id = fresh_run_id();
  SECTION("refused") {
    const std::string backend = GENERATE("auto", "host", "nccl");
    const auto errors =
        run_ranks(3, [&](int rank) { GpuRank own(rank, 3, run_id, options(30, backend), 2); });
    for (const std::string& error : errors) {
      CHECK(error ==
            "ranks 0 and 2 share a GPU, 3 ranks of a node have 2: --nproc_per_node=2 and --device cuda, or "
            "--backend host with launch --allow-gpu-sharing");
    }
  }
  SECTION("auto") {
    const auto errors = run_ranks(2, [&](int rank) {
      GpuRank own(rank, 2, run_id, sharing(options(30)), 1);
      require(own.group->backend() == "host", "backend");
      own.allocate();
      own.fill(0, std::vector<float>(count, static_cast<float>(rank + 1)));
      own.sum();
      own.wait();
      require(own.read(0) == std::vector<float>(count, 3.0F), "sum");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
  SECTION("nccl") {
    const auto errors =
        run_ranks(2, [&](int rank) { GpuRank own(rank, 2, run_id, sharing(options(30, "nccl")), 1); });
    for (const std::string& error : errors) {
      CHECK(error == "--backend nccl: ranks 0 and 1 share a GPU; use --backend host");
    }
  }
  SECTION("nccl with hosts that it takes for different ones") {
    const auto errors = run_ranks(2, [&](int rank) {
      setenv("NCCL_HOSTID", ("fake" + std::to_string(rank)).c_str(), 1);
      GpuRank own(rank, 2, run_id, sharing(options(30, "nccl")), 1);
      require(own.group->backend() == "nccl", "backend");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
  SECTION("auto does not do that by itself") {
    const auto errors = run_ranks(2, [&](int rank) {
      setenv("NCCL_HOSTID", ("fake" + std::to_string(rank)).c_str(), 1);
      GpuRank own(rank, 2, run_id, sharing(options(30)), 1);
      require(own.group->backend() == "host", "backend");
    });
    CHECK(errors == std::vector<std::string>(2));
  }
}

TEST_CASE("ranks that each see one GPU have their own", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    setenv("SIMGPU_DEVICES", "4", 1);
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(3 - rank).c_str(), 1);
    const auto device = kernels::make_cuda_device(0);
    const auto group = make_communicator(local_world(rank, 2, run_id), options(30), *device);
    require(group->backend() == "nccl", "backend");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a rank that sees no GPU while others do is named", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(3, [&](int rank) {
    if (rank != 1) return static_cast<void>(GpuRank(rank, 3, run_id, options(30)));
    const auto device = kernels::make_cpu_device(1);
    make_communicator(local_world(rank, 3, run_id), options(30), *device);
  });
  for (const std::string& error : errors) CHECK_THAT(error, contains("rank 1 sees no GPU and rank 0 does"));
}

TEST_CASE("a GPU of its own makes auto take nccl; a GPU alone exchanges nothing", "[nccl]") {
  const int size = GENERATE(1, 2);
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(size, [&](int rank) {
    GpuRank own(rank, size, run_id, options(30));
    require(own.group->backend() == (size == 1 ? "solo" : "nccl"), std::string(own.group->backend()));
    require(own.group->on_streams() == (size > 1), "on streams");
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}

TEST_CASE("ranges outside of the GPU's arena are refused", "[nccl]") {
  const std::string run_id = fresh_run_id();
  const auto errors = run_ranks(2, [&](int rank) {
    GpuRank own(rank, 2, run_id, options(30, "nccl"));
    own.allocate();
    own.group->all_reduce(64, count, DType::f32, fc1, *own.stream);
  });
  for (const std::string& error : errors) CHECK_THAT(error, contains("not in the arena"));
}
