// The collectives over arenas by NCCL on the CUDA machine in software: a process for each rank.
#include "tests/support/catch.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/gpu_ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

TEST_CASE("by NCCL", "[nccl]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const std::string run_id = fresh_run_id();
  CAPTURE(size);
  const auto errors = run_ranks(size, [&](int rank) {
    GpuRank own(rank, size, run_id, options(60, "nccl"));
    const auto write = [&](const Arena& arena, std::span<const std::byte> bytes) {
      own.device->copy_to_device(arena.data(), bytes.data(), bytes.size(), *own.stream);
      own.stream->synchronize();
    };
    const auto read = [&](const Arena& arena, std::span<std::byte> bytes) {
      own.wait();
      own.device->copy_to_host(bytes.data(), arena.data(), bytes.size(), *own.stream);
      own.stream->synchronize();
    };
    check_conformance({.group = *own.group,
                       .stream = *own.stream,
                       .order = SumOrder::by_rank,
                       .write = write,
                       .read = read});
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}
