#include "comm/nccl/functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "kernels/base/error.h"
#include "kernels/base/host.h"

namespace lockstep::comm {
namespace {

constexpr int oldest_version = 21900;
constexpr const char* hint = "install libnccl2, or use --backend host";

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

template <class Function>
void require(void* library, const char* name, Function& function) {
  look_up(library, name, function);
  if (function == nullptr) throw DeviceError(fmt::format("NCCL has no {}: {}", name, hint));
}

NcclFunctions load() {
  // It starts threads and exit handlers: it stays.
  void* const library = dlopen(LOCKSTEP_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) throw DeviceError(fmt::format("NCCL cannot be loaded: {}; {}", hint, dlerror()));

  NcclFunctions nccl{};
  decltype(&ncclGetVersion) get_version = nullptr;
  require(library, "ncclGetVersion", get_version);
  get_version(&nccl.version);
  if (nccl.version < oldest_version) {
    throw DeviceError(fmt::format("NCCL is of version {}, 2.19 is the oldest that will do: {}",
                                  version_text(nccl.version), hint));
  }
  require(library, "ncclGetUniqueId", nccl.get_unique_id);
  require(library, "ncclCommInitRankConfig", nccl.init_rank);
  require(library, "ncclCommGetAsyncError", nccl.get_async_error);
  require(library, "ncclGetErrorString", nccl.error_string);
  require(library, "ncclGetLastError", nccl.last_error);
  require(library, "ncclGroupStart", nccl.group_start);
  require(library, "ncclGroupEnd", nccl.group_end);
  require(library, "ncclAllReduce", nccl.all_reduce);
  require(library, "ncclReduceScatter", nccl.reduce_scatter);
  require(library, "ncclAllGather", nccl.all_gather);
  require(library, "ncclReduce", nccl.reduce);
  require(library, "ncclBroadcast", nccl.broadcast);
  require(library, "ncclCommFinalize", nccl.finalize);
  require(library, "ncclCommDestroy", nccl.destroy);
  require(library, "ncclCommAbort", nccl.abort);
  require(library, "ncclMemAlloc", nccl.allocate);
  require(library, "ncclMemFree", nccl.free);
  require(library, "ncclCommRegister", nccl.register_buffer);
  require(library, "ncclCommDeregister", nccl.deregister_buffer);
  look_up(library, "ncclCommWindowRegister", nccl.register_window);
  look_up(library, "ncclCommWindowDeregister", nccl.deregister_window);
  return nccl;
}

}  // namespace

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string host_to_nccl() {
  const char* const replaced = std::getenv("NCCL_HOSTID");
  return replaced == nullptr ? host_name() + boot_id() : replaced;
}

const NcclFunctions& nccl_functions() {
  static const NcclFunctions functions = load();
  return functions;
}

}  // namespace lockstep::comm
