#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace lockstep::comm {

/// NCCL's functions, from the library that this process loads when it first asks: a run on one GPU needs no
/// NCCL, and what newer versions add is used where it is there.
struct NcclFunctions {
  int version = 0;  ///< 23007 for 2.30.7

  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommGetAsyncError) get_async_error;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetLastError) last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduce) reduce;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclMemAlloc) allocate;
  decltype(&ncclMemFree) free;
  decltype(&ncclCommRegister) register_buffer;
  decltype(&ncclCommDeregister) deregister_buffer;

  /// Since 2.27; null before. Since 2.29 the window is null where GPUs are not fully connected. Types of our
  /// own, since headers before that have none.
  using Window = void*;
  ncclResult_t (*register_window)(ncclComm_t, void* address, std::size_t bytes, Window*, int flags);
  ncclResult_t (*deregister_window)(ncclComm_t, Window);
};

/// NCCL_WIN_COLL_SYMMETRIC: every rank registers the same bytes, and all of them do.
inline constexpr int symmetric_window = 1;

/// Before it replays of graphs that hold collectives between hosts may hang (vllm-project/vllm #52504).
inline constexpr int oldest_replaying_between_hosts = 23004;
/// Before it windows are given to GPUs behind PCIe too, for which NCCL's other kernels are faster.
inline constexpr int oldest_choosing_windows = 22900;

/// "2.28.9".
std::string version_text(int version);

/// What NCCL tells hosts apart by: NCCL_HOSTID, or what is this boot's own.
std::string host_to_nccl();

/// DeviceError when there is no NCCL, or one before 2.19.
const NcclFunctions& nccl_functions();

}  // namespace lockstep::comm
