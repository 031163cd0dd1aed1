// What a program asks the library, and how errors read.
#include <nccl.h>

#include <string>

#include "tests/simgpu/nccl/faults.h"
#include "tests/simgpu/nccl/library.h"

using namespace simgpu::nccl;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = simgpu::nccl::version();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    require_ready(*rank);
    *count = rank->ranks();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* result) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    require_ready(*rank);
    *result = rank->rank();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer([&] {
    const CommunicatorPtr rank = Library::instance().find(comm);
    require_ready(*rank);
    *device = rank->device();
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  thread_local std::string text;  // the pointer is good until this thread's next call
  text = Library::instance().last_error();
  if (comm != nullptr) {
    const std::string own = Library::instance().find(comm)->last_error();
    if (!own.empty()) text = own;
  }
  return text.c_str();
}
