// Which ranks have which GPU, and by what they therefore exchange.
#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/comm/gpu_ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;
using tests::contains;

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
      own.fill(0, std::vector<float>(elements, static_cast<float>(rank + 1)));
      own.sum();
      own.wait();
      require(own.read(0) == std::vector<float>(elements, 3.0F), "sum");
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
    require(own.group->stream_ordered() == (size > 1), "on streams");
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}
