// Communicators: their making, state and end.
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/simgpu/nccl/faults.h"
#include "tests/simgpu/nccl/group.h"
#include "tests/simgpu/nccl/library.h"
#include "tests/simgpu/operation.h"

using namespace simgpu::nccl;
using simgpu::report_mistake;

namespace {

constexpr std::string_view id_start = "/simgpu-nccl-";
/// At the end of the id: one that was passed on in part, or never written, is refused.
constexpr char id_end = 0x5A;
constexpr unsigned config_magic = 0xcafebeef;

std::string name_in(const ncclUniqueId& id) {
  const std::string_view text(id.internal, strnlen(id.internal, sizeof(id.internal)));
  require(text.starts_with(id_start) && id.internal[NCCL_UNIQUE_ID_BYTES - 1] == id_end, ncclInvalidArgument,
          "the unique id is not what ncclGetUniqueId gave: all its bytes must reach every rank");
  return std::string(text);
}

bool is_blocking(const ncclConfig_t* config) {
  if (config == nullptr) return true;
  require(config->magic == config_magic && config->size == sizeof(ncclConfig_t), ncclInvalidArgument,
          "ncclConfig_t was not set to NCCL_CONFIG_INITIALIZER");
  require(config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1,
          ncclInvalidArgument, fmt::format("config.blocking is {}: 0 or 1", config->blocking));
  require(config->maxCTAs == NCCL_CONFIG_UNDEF_INT || (config->maxCTAs >= 1 && config->maxCTAs <= 64),
          ncclInvalidArgument, fmt::format("config.maxCTAs is {}: 1 to 64", config->maxCTAs));
  return config->blocking != 0;
}

[[noreturn]] void refuse_end(const Communicator& rank, const char* function, const std::string& why) {
  report_mistake("NCCL teardown", fmt::format("{} on rank {}: {}", function, rank.rank(), why));
}

void require_no_graphs(const Communicator& rank, const char* function) {
  const int left = rank.graph_references;
  if (left == 0) return;
  refuse_end(rank, function,
             fmt::format("{} of its collectives are in CUDA graphs; destroy those first, NCCL waits for it "
                         "without end",
                         left));
}

void require_quiet(const Communicator& rank) {
  const int pending = rank.pending;
  const int windows = rank.windows;
  if (pending > 0) {
    refuse_end(rank, "ncclCommDestroy",
               fmt::format("{} collectives are not done; synchronize their stream first", pending));
  }
  if (windows > 0) {
    refuse_end(rank, "ncclCommDestroy", fmt::format("{} windows are registered; deregister them", windows));
  }
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  *id = {};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  fmt::format_to_n(id->internal, NCCL_UNIQUE_ID_BYTES - 2, "{}{}-{}", id_start, getpid(), now);
  id->internal[NCCL_UNIQUE_ID_BYTES - 1] = id_end;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return answer([&] {
    require(comm != nullptr, ncclInvalidArgument, "comm is null");
    require(ranks >= 1 && rank >= 0 && rank < ranks, ncclInvalidArgument,
            fmt::format("rank {} of {} ranks", rank, ranks));
    const bool blocking = is_blocking(config);
    while (is_absent(rank)) pause();
    const auto joined =
        std::make_shared<Communicator>(name_in(id), rank, ranks, simgpu::current_device(), blocking);
    *comm = Library::instance().add(joined);
    Group& group = Group::of_this_thread();
    if (group.is_open()) {
      group.add(joined);
      return ncclSuccess;
    }
    return blocking ? joined->wait() : ncclInProgress;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return answer([&] {
    require(error != nullptr, ncclInvalidArgument, "asyncError is null");
    *error = Library::instance().find(comm)->poll();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommFinalize");
    require_ready(*rank);
    require(rank->life() == Communicator::Life::in_use, ncclInvalidArgument, "finalized twice");
    rank->begin({.kind = Setup::Kind::finalize});
    rank->end(Communicator::Life::finalized);
    return rank->blocking() ? rank->wait() : ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommDestroy");
    require_ready(*rank);
    require_no_graphs(*rank, "ncclCommDestroy");
    require_quiet(*rank);
    rank->end(Communicator::Life::destroyed);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommAbort");
    require_no_graphs(*rank, "ncclCommAbort");
    rank->segment().unlink();
    rank->end(Communicator::Life::aborted);
    return ncclSuccess;
  });
}
