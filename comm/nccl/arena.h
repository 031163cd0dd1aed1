#pragma once

#include <cstddef>
#include <span>

#include "comm/nccl/group.h"

namespace lockstep::comm {

/// Device memory for NCCL, zeroed, which it may reach without copies: from ncclMemAlloc, and registered as a
/// window where `as_window`.
class NcclArena {
 public:
  /// On the current device; `stream` is one of its. All ranks pass the same.
  NcclArena(const NcclFunctions& nccl, NcclGroup& group, std::size_t bytes, bool as_window,
            cudaStream_t stream, const Deadline& deadline);
  ~NcclArena();
  NcclArena(const NcclArena&) = delete;
  NcclArena& operator=(const NcclArena&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

  /// Before the group closes.
  void deregister(const Deadline& deadline);
  /// Leaves the memory to the end of the process: freeing waits for what is on the GPU.
  void abandon() noexcept { bytes_ = {}; }

 private:
  const NcclFunctions& nccl_;
  NcclGroup& group_;
  std::span<std::byte> bytes_;
  NcclFunctions::Window window_ = nullptr;
};

}  // namespace lockstep::comm
