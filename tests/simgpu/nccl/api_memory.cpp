// Memory for collectives.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>

#include <cstdint>

#include "tests/simgpu/nccl/buffers.h"
#include "tests/simgpu/nccl/library.h"
#include "tests/simgpu/operation.h"

using namespace simgpu::nccl;
using simgpu::report_mistake;

namespace {

/// NCCL looks up the allocation of the first byte alone.
void require_device_memory(const Communicator& rank, const char* function, const void* address,
                           std::size_t bytes) {
  const bool is_device = simgpu::is_device_address(address);
  const std::size_t of_nccl = Buffers::instance().bytes_to_end(address);
  if (is_device && bytes <= (of_nccl > 0 ? of_nccl : simgpu::bytes_to_end(address))) return;
  report_mistake(
      "NCCL buffer",
      fmt::format("{} on rank {}: {}", function, rank.rank(),
                  is_device ? fmt::format("{} bytes reach beyond the end of their allocation", bytes)
                            : "not device memory"));
}

/// NCCL does not look whether its own thread is still at work on the communicator.
void require_none_in_progress(Communicator& rank, const char* function) {
  if (rank.blocking() || rank.state() != ncclInProgress) return;
  report_mistake("NCCL communicator", fmt::format("{} on rank {} while an earlier call is in progress: poll "
                                                  "ncclCommGetAsyncError until it gives ncclSuccess",
                                                  function, rank.rank()));
}

}  // namespace

ncclResult_t ncclMemAlloc(void** address, size_t bytes) {
  return answer([&] {
    require(address != nullptr && bytes > 0, ncclInvalidArgument, "no address, or no bytes");
    *address = Buffers::instance().allocate(bytes);
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* address) {
  return answer([&] {
    Buffers::instance().free(address);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* address, size_t bytes, void** handle) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommRegister");
    require_ready(*rank);
    require(handle != nullptr && bytes > 0, ncclInvalidArgument, "no handle, or no bytes");
    require_device_memory(*rank, "ncclCommRegister", address, bytes);
    *handle = Buffers::instance().register_for(rank, address, false);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommDeregister");
    require_none_in_progress(*rank, "ncclCommDeregister");
    Buffers::instance().deregister(rank, handle, false);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* address, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommWindowRegister");
    require_ready(*rank);
    require(window != nullptr && bytes > 0, ncclInvalidArgument, "no window, or no bytes");
    require((flags & ~NCCL_WIN_COLL_SYMMETRIC) == 0, ncclInvalidArgument, fmt::format("flags {}", flags));
    require(reinterpret_cast<std::uintptr_t>(address) % NCCL_WIN_REQUIRED_ALIGNMENT == 0, ncclInvalidArgument,
            fmt::format("a window's address must be a multiple of {}", NCCL_WIN_REQUIRED_ALIGNMENT));
    require_device_memory(*rank, "ncclCommWindowRegister", address, bytes);
    require(Buffers::instance().bytes_to_end(address) > 0, ncclInvalidArgument,
            "a window must lie in memory of ncclMemAlloc");
    *window = nullptr;
    rank->begin({.kind = Setup::Kind::register_window, .bytes = bytes}, [=] {
      if (!rank->has_windows()) return;
      *window = reinterpret_cast<ncclWindow_t>(Buffers::instance().register_for(rank, address, true));
    });
    if (rank->blocking()) return rank->wait();
    return rank->answers_early() ? ncclSuccess : ncclInProgress;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommWindowDeregister");
    require_none_in_progress(*rank, "ncclCommWindowDeregister");
    Buffers::instance().deregister(rank, window, true);
    return ncclSuccess;
  });
}
