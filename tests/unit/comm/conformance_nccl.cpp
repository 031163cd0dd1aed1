// The collectives over arenas by NCCL, a process for each rank: on the CUDA machine in software, or on the
// GPUs that there are.
#include <cstdlib>

#include "kernels/cuda/library.h"
#include "tests/support/catch.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/gpu_ranks.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::testing;

namespace {

bool is_simulated() {
  return kernels::cuda_in_this_build() == "simulated";
}

/// How many GPUs the ranks have; 0: as many as there are ranks. NCCL takes ranks that share one where each
/// has a host's name of its own.
int shared_gpus(int rank, int size) {
  if (is_simulated()) return 0;
  const int gpus = kernels::visible_cuda_devices();
  if (gpus < size) setenv("NCCL_HOSTID", ("rank" + std::to_string(rank)).c_str(), 1);
  return gpus;
}

}  // namespace

TEST_CASE("by NCCL", "[nccl]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const std::string run_id = fresh_run_id();
  CAPTURE(size);
  const auto errors = run_ranks(size, [&](int rank) {
    GpuRank own(rank, size, run_id, sharing(options(60, "nccl")), shared_gpus(rank, size));
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
                       .order = is_simulated() ? SumOrder::by_rank : SumOrder::unknown,
                       .write = write,
                       .read = read});
    own.group->barrier();
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(size)));
}
