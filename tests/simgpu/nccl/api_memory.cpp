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

void require_device_memory(const Communicator& rank, const char* function, const void* address) {
  if (simgpu::is_device_address(address)) return;
  report_mistake("NCCL buffer", fmt::format("{} on rank {}: not device memory", function, rank.rank()));
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
    require_device_memory(*rank, "ncclCommRegister", address);
    *handle = Buffers::instance().register_for(rank, address, false);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    const Stay stay(*rank, "ncclCommDeregister");
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
    require_device_memory(*rank, "ncclCommWindowRegister", address);
    require(Buffers::instance().owns(address), ncclInvalidArgument,
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
    Buffers::instance().deregister(rank, window, true);
    return ncclSuccess;
  });
}
